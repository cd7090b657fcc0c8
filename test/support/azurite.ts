import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import {
  BlobServiceClient,
  ContainerSASPermissions,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { npmPackages } from './npm-package.ts';
import { startProcess } from './server-process.ts';

export interface Azurite {
  /** Its path is the account. Containers are below it. */
  endpointUrl: string;
  account: string;
  accountKey: string;
  createContainer(name: string): Promise<void>;
  /**
   * Returns a SAS for a container, without its question mark; `permissions` such as `rcwdl`. Valid
   * for one hour.
   */
  sasToken(container: string, permissions: string): Promise<string>;
  /** Ends it and deletes its files. */
  stop(): Promise<void>;
}

/**
 * Deleted blobs stay in memory for ten more minutes. The default, half of the memory, is too little
 * for benchmarks.
 */
const MEMORY_MIB = Math.floor((0.75 * totalmem()) / 2 ** 20);

const packages = npmPackages(join(import.meta.dirname, 'azurite'));

/**
 * Null if Azurite can run here, else the reason. Tests that need it are skipped with the reason.
 */
export async function whyNoAzurite(): Promise<string | null> {
  const installed = await packages;
  return installed.available ? null : installed.reason;
}

/**
 * Starts Azurite, Microsoft's emulator of Azure Blob Storage, on loopback. It keeps everything in
 * memory, or in a temporary folder if that is too much.
 */
export async function startAzurite(options: { onDisk?: boolean } = {}): Promise<Azurite> {
  const account = 'waybill';
  const accountKey = randomBytes(64).toString('base64');
  const installed = await packages;
  if (!installed.available) throw new Error(installed.reason);
  const main = join(installed.folder, 'node_modules/azurite/dist/src/blob/main.js');
  // The SDK may use a newer version of the service's API than Azurite knows.
  const args = ['--blobPort', '0', '--silent', '--disableTelemetry', '--skipApiVersionCheck'];
  const home = options.onDisk ? mkdtempSync(join(tmpdir(), 'waybill-azurite-')) : null;
  args.push(
    ...(home === null
      ? ['--inMemoryPersistence', '--extentMemoryLimit', String(MEMORY_MIB)]
      : ['--location', home]),
  );
  const server = startProcess([process.execPath, main, ...args], {
    env: { ...process.env, AZURITE_ACCOUNTS: `${account}:${accountKey}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [server.child.stdout, server.child.stderr])
    stream?.on('data', (chunk) => (output += chunk));
  const address = () => /listens on (http:\S+)/.exec(output)?.[1];
  if (!(await server.ready(async () => address() !== undefined)))
    throw new Error(`Azurite does not start:\n${output}`);

  const endpointUrl = `${address()}/${account}`;
  const service = new BlobServiceClient(
    endpointUrl,
    new StorageSharedKeyCredential(account, accountKey),
  );
  return {
    endpointUrl,
    account,
    accountKey,
    async createContainer(name) {
      await service.createContainer(name);
    },
    async sasToken(container, permissions) {
      const expiresOn = new Date(Date.now() + 3_600_000);
      const url = await service
        .getContainerClient(container)
        .generateSasUrl({ expiresOn, permissions: ContainerSASPermissions.parse(permissions) });
      return new URL(url).search.slice(1);
    },
    async stop() {
      await server.kill();
      if (home !== null) rmSync(home, { recursive: true, force: true });
    },
  };
}
