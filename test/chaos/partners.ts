import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import { startAzurite, whyNoAzurite } from '../support/file-servers/azure/azurite.ts';
import { passivePorts } from '../support/file-servers/behind-proxy.ts';
import { startFtpsServer, whyNoFtpsServer } from '../support/file-servers/ftps/server.ts';
import { startRadosgw, whyNoRadosgw } from '../support/file-servers/s3/radosgw.ts';
import { startSftpServer, whyNoSftpServer } from '../support/file-servers/sftp/server.ts';
import { isInUse } from '../support/network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import type { EndpointRecord } from './evidence.ts';
import { PARTNERS, type PartnerName } from './plan.ts';

const MiB = 1 << 20;
const SMALL_DISK_BYTES = 48 * MiB;
const CONTAINER = 'chaos';
const PUT_TRIES = 60;
const PUT_AGAIN_MS = 1_000;

/** An endpoint of the installation. */
export interface ChaosEndpoint {
  name: string;
  scheme: 'sftp' | 'ftps' | 's3' | 'azure';
  /**
   * The request that configures it, with credentials. Its address is that of the partner's proxy.
   */
  request: Record<string, unknown>;
  record: EndpointRecord;
}

/** A server that is the source and destination of transfers. */
export interface Partner {
  name: PartnerName;
  proxy: TcpProxy;
  endpoint: ChaosEndpoint;
  /** The folder on this machine that has its files; null if there is none. */
  root: string | null;
  /** Writes a file without the service and the proxy. */
  put(path: string, content: Buffer): Promise<void>;
  /**
   * Ends the server, as a crash does, and starts it again; null if the server would lose its files.
   */
  restart: { down(): Promise<void>; up(): Promise<void> } | null;
  stop(): Promise<void>;
}

/** A destination whose disk can be filled. */
export interface SmallDisk {
  endpoint: ChaosEndpoint;
  fill(): void;
  empty(): void;
}

export interface Partners {
  servers: Partner[];
  smallDisk: SmallDisk | null;
  /** What this machine lacks, and why. */
  skipped: string[];
  endpoints: ChaosEndpoint[];
  stop(): Promise<void>;
}

export async function startPartners(): Promise<Partners> {
  const reasons = {
    sftp: await whyNoSftpServer(),
    ftps: await whyNoFtpsServer('proftpd'),
    s3: await whyNoRadosgw(),
    azure: await whyNoAzurite(),
  };
  const start = { sftp: startSftp, ftps: startFtps, s3: startS3, azure: startAzure };
  const possible = PARTNERS.filter((name) => reasons[name] === null);
  const skipped = PARTNERS.filter((name) => reasons[name] !== null).map(
    (name) => `${name}: ${reasons[name]}`,
  );
  const servers: (Partner & { smallDisk?: SmallDisk | string })[] = await Promise.all(
    possible.map((name) => start[name]()),
  );
  const disk =
    servers.find((server) => server.smallDisk !== undefined)?.smallDisk ??
    'there is no SFTP server';
  if (typeof disk === 'string') skipped.push(`disk.full: ${disk}`);
  const smallDisk = typeof disk === 'string' ? null : disk;
  return {
    servers,
    smallDisk,
    skipped,
    endpoints: [
      ...servers.map((server) => server.endpoint),
      ...(smallDisk ? [smallDisk.endpoint] : []),
    ],
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  };
}

/** Puts a file, again and again while the server is down. */
export async function untilPut({ put }: Partner, path: string, content: Buffer): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await put(path, content);
    } catch (error) {
      if (tries === PUT_TRIES) throw error;
      await sleep(PUT_AGAIN_MS);
    }
  }
}

async function startSftp(): Promise<Partner & { smallDisk: SmallDisk | string }> {
  const server = await startSftpServer();
  const proxy = await startTcpProxy(server);
  const folder = join(server.root, 'small-disk');
  const unmount = () => void spawnSync('umount', ['-l', folder]);
  const mounted = mountSmallDisk(folder, unmount);
  // The server has its own mount namespace, with the mounts that existed when it started.
  if (mounted === null) await server.restart();
  const request = {
    protocol: 'sftp',
    host: proxy.host,
    port: proxy.port,
    username: server.username,
    private_key: server.privateKey,
    host_key_sha256: server.hostKeySha256,
  };
  const endpoint = (name: string, path: string): ChaosEndpoint => ({
    name,
    scheme: 'sftp',
    request: { ...request, name, base_path: path },
    record: { name, kind: 'folder', protocol: 'sftp', path },
  });
  const ballast = join(folder, '.ballast');
  return {
    name: 'sftp',
    proxy,
    endpoint: endpoint('sftp', server.root),
    root: server.root,
    put: putInto(server.root),
    restart: { down: server.down, up: server.restart },
    smallDisk: mounted ?? {
      endpoint: endpoint('sftp-small', folder),
      fill: () => fill(ballast),
      empty: () => rmSync(ballast, { force: true }),
    },
    async stop() {
      await proxy.close();
      await server.down();
      if (mounted === null) unmount();
      await server.stop();
    },
  };
}

/** Null if it is mounted, else why not. */
function mountSmallDisk(folder: string, unmount: () => void): string | null {
  mkdirSync(folder, { recursive: true });
  if (process.getuid?.() !== 0) return 'only root can mount a small disk';
  try {
    execFileSync(
      'mount',
      ['-t', 'tmpfs', '-o', `size=${SMALL_DISK_BYTES},mode=777`, 'tmpfs', folder],
      { stdio: 'pipe' },
    );
    process.once('exit', unmount);
    return null;
  } catch (error) {
    return `a small disk can't be mounted: ${String((error as { stderr?: Buffer }).stderr).trim()}`;
  }
}

function fill(ballast: string): void {
  try {
    writeFileSync(ballast, Buffer.alloc(SMALL_DISK_BYTES));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}

async function startFtps(): Promise<Partner> {
  for (let attempt = 1; ; attempt++) {
    const { host, ports } = passivePorts();
    const extraConfig = `PassivePorts ${ports[0]} ${ports.at(-1)}`;
    const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit', host, extraConfig });
    let proxy: TcpProxy;
    try {
      proxy = await startTcpProxy(server, ports);
    } catch (error) {
      await server.stop();
      if (!isInUse(error) || attempt === 5) throw error;
      continue;
    }
    const { username, password, caPem, root } = server;
    return {
      name: 'ftps',
      proxy,
      endpoint: {
        name: 'ftps',
        scheme: 'ftps',
        request: {
          name: 'ftps',
          protocol: 'ftps',
          host: proxy.host,
          port: proxy.port,
          base_path: root,
          username,
          password,
          ca_pem: caPem,
        },
        record: { name: 'ftps', kind: 'folder', protocol: 'ftps', path: root },
      },
      root,
      put: putInto(root),
      restart: { down: server.down, up: server.restart },
      async stop() {
        await proxy.close();
        await server.stop();
      },
    };
  }
}

function putInto(root: string): Partner['put'] {
  return async (path, content) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  };
}

async function startS3(): Promise<Partner> {
  const server = await startRadosgw();
  const { endpointUrl: url, region, accessKeyId, secretAccessKey } = server;
  const bucket = `chaos-${randomBytes(4).toString('hex')}`;
  await server.createBucket(bucket);
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(url).port) });
  const s3 = new S3Client({
    endpoint: url,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
  return {
    name: 's3',
    proxy,
    endpoint: {
      name: 's3',
      scheme: 's3',
      request: {
        name: 's3',
        protocol: 's3',
        bucket,
        region,
        endpoint_url: `http://127.0.0.1:${proxy.port}`,
        force_path_style: true,
        access_key_id: accessKeyId,
        secret_access_key: secretAccessKey,
      },
      record: { name: 's3', kind: 's3', url, region, bucket, accessKeyId, secretAccessKey },
    },
    root: null,
    put: async (path, content) =>
      void (await s3.send(new PutObjectCommand({ Bucket: bucket, Key: path, Body: content }))),
    restart: { down: server.gatewayDown, up: server.restartGateway },
    async stop() {
      s3.destroy();
      await proxy.close();
      await server.stop();
    },
  };
}

async function startAzure(): Promise<Partner> {
  const server = await startAzurite({ onDisk: true });
  const { endpointUrl: url, account, accountKey } = server;
  await server.createContainer(CONTAINER);
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(url).port) });
  const container = new BlobServiceClient(
    url,
    new StorageSharedKeyCredential(account, accountKey),
  ).getContainerClient(CONTAINER);
  return {
    name: 'azure',
    proxy,
    endpoint: {
      name: 'azure',
      scheme: 'azure',
      request: {
        name: 'azure',
        protocol: 'azure',
        account,
        container: CONTAINER,
        endpoint_url: `http://127.0.0.1:${proxy.port}/${account}`,
        account_key: accountKey,
      },
      record: { name: 'azure', kind: 'azure', url, container: CONTAINER, account, accountKey },
    },
    root: null,
    put: async (path, content) =>
      void (await container.getBlockBlobClient(path).uploadData(content)),
    // Azurite writes its list of blobs to disk a moment later: a crash would lose files that it has
    // acknowledged.
    restart: null,
    async stop() {
      await proxy.close();
      await server.stop();
    },
  };
}
