import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import {
  BlobServiceClient,
  ContainerSASPermissions,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { npmPackages } from '../../programs/npm-package.ts';
import { startProcess } from '../../programs/server-process.ts';
import { sharedServer } from '../../run/shared-servers.ts';

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
  /** Ends it and deletes its files. A shared one runs on without the files of this account. */
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
  const { origin, accountKey, stop } = await run([account], options.onDisk ?? false);
  return { ...accountAt(origin, account, accountKey), stop };
}

/** Returns an account of its own on the Azurite that the test files of a run share. */
export async function shareAzurite(): Promise<Azurite> {
  const { origin = '', account = '', accountKey = '' } = await sharedServer('azurite');
  const shared = accountAt(origin, account, accountKey);
  return {
    ...shared,
    async stop() {
      for await (const { name } of shared.service.listContainers())
        await shared.service.deleteContainer(name);
    },
  };
}

/** Starts the Azurite that test files share: each gets the next of its accounts. */
export async function startAzuriteForMany() {
  const accounts = Array.from({ length: 200 }, (_, i) => `waybill${i + 1}`);
  const { origin, accountKey, stop } = await run(accounts, false);
  return {
    facts() {
      const account = accounts.shift();
      if (account === undefined) throw new Error('no account of Azurite is left');
      return { origin, account, accountKey };
    },
    stop,
  };
}

async function run(accounts: string[], onDisk: boolean) {
  const accountKey = randomBytes(64).toString('base64');
  const installed = await packages;
  if (!installed.available) throw new Error(installed.reason);
  const main = join(installed.folder, 'node_modules/azurite/dist/src/blob/main.js');
  // The SDK may use a newer version of the service's API than Azurite knows.
  const args = ['--blobPort', '0', '--silent', '--disableTelemetry', '--skipApiVersionCheck'];
  const home = onDisk ? mkdtempSync(join(tmpdir(), 'waybill-azurite-')) : null;
  args.push(
    ...(home === null
      ? ['--inMemoryPersistence', '--extentMemoryLimit', String(MEMORY_MIB)]
      : ['--location', home]),
  );
  const keys = accounts.map((account) => `${account}:${accountKey}`).join(';');
  const server = startProcess([process.execPath, main, ...args], {
    env: { ...process.env, AZURITE_ACCOUNTS: keys },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [server.child.stdout, server.child.stderr])
    stream?.on('data', (chunk) => (output += chunk));
  const address = () => /listens on (http:\S+)/.exec(output)?.[1];
  if (!(await server.ready(async () => address() !== undefined)))
    throw new Error(`Azurite does not start:\n${output}`);
  return {
    origin: address() as string,
    accountKey,
    async stop() {
      await server.kill();
      if (home !== null) rmSync(home, { recursive: true, force: true });
    },
  };
}

function accountAt(origin: string, account: string, accountKey: string) {
  const endpointUrl = `${origin}/${account}`;
  const service = new BlobServiceClient(
    endpointUrl,
    new StorageSharedKeyCredential(account, accountKey),
  );
  return {
    service,
    endpointUrl,
    account,
    accountKey,
    async createContainer(name: string) {
      await service.createContainer(name);
    },
    async sasToken(container: string, permissions: string) {
      const expiresOn = new Date(Date.now() + 3_600_000);
      const url = await service
        .getContainerClient(container)
        .generateSasUrl({ expiresOn, permissions: ContainerSASPermissions.parse(permissions) });
      return new URL(url).search.slice(1);
    },
  };
}
