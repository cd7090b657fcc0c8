import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  BlobServiceClient,
  ContainerSASPermissions,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { startAzurite } from '../../test/support/file-servers/azure/azurite.ts';
import { passivePorts } from '../../test/support/file-servers/behind-proxy.ts';
import {
  azureEndpoint,
  ENDPOINT_KINDS,
  s3Endpoint,
} from '../../test/support/file-servers/endpoints.ts';
import { startRadosgw } from '../../test/support/file-servers/s3/radosgw.ts';
import { startSftpServer } from '../../test/support/file-servers/sftp/server.ts';
import type { Bench } from './bench.ts';
import { startProxy } from './proxy.ts';
import { obscure, type Rclone, type Remote } from './rclone.ts';

export type Protocol = 'sftp' | 'ftps' | 's3' | 'azure';

/** A source or destination server, as its clients see it: behind a proxy if there is a delay. */
export interface Side extends Remote {
  protocol: Protocol;
  /** The endpoint, in the JSON of `waybill endpoints add`. */
  endpoint: Record<string, unknown>;
  /**
   * Folder of the files, in memory if the system can; null if the server keeps them in its own way.
   */
  folder: string | null;
  /** rclone's name of the place to which paths are relative. */
  root: string;
}

export type FolderSide = Side & { folder: string };

/** Most partners give accounts without a shell. It also saves rclone the hashing on the servers. */
const SFTP_ONLY = 'ForceCommand internal-sftp\nDisableForwarding yes';
const BUCKET = 'bucket';
const CONTAINER = 'container';
const A_DAY_MS = 86_400_000;

export async function startSide(
  bench: Bench,
  rclone: Rclone,
  protocol: Protocol,
  name: string,
  roundTripMs: number,
): Promise<Side> {
  switch (protocol) {
    case 'sftp':
      return startSftpSide(bench, name, roundTripMs);
    case 'ftps':
      return startFtpsSide(bench, rclone, name, roundTripMs);
    case 's3':
      return startS3Side(bench, name, roundTripMs);
    case 'azure':
      return startAzureSide(bench, name, roundTripMs);
  }
}

/** Starts OpenSSH. */
export async function startSftpSide(
  bench: Bench,
  name: string,
  roundTripMs: number,
): Promise<FolderSide> {
  const server = await startSftpServer(bench.options.shell ? {} : { extraConfig: SFTP_ONLY });
  bench.defer(server.stop);
  const folder = await folderOf(bench, name);
  const { host, username, privateKey, hostKeySha256 } = server;
  const port = await portOf(bench, server, roundTripMs);
  const key = join(bench.folder, `${name}-${port}.key`);
  await writeFile(key, privateKey, { mode: 0o600 });
  const account = { host, port, username, private_key: privateKey, host_key_sha256: hostKeySha256 };
  return {
    name,
    protocol: 'sftp',
    endpoint: { name, protocol: 'sftp', base_path: folder, ...account },
    folder,
    remote: { type: 'sftp', host, port: String(port), user: username, key_file: key },
    root: `${name}:${folder}`,
  };
}

/** Starts ProFTPD, with TLS on every connection. */
async function startFtpsSide(
  bench: Bench,
  rclone: Rclone,
  name: string,
  roundTripMs: number,
): Promise<FolderSide> {
  const passive = roundTripMs > 0 ? passivePorts() : undefined;
  const server = await ENDPOINT_KINDS.ftps.start(passive ? { passive } : {});
  bench.defer(server.stop);
  const folder = await folderOf(bench, name);
  const { host, port, username, password } = server.request as {
    host: string;
    port: number;
    username: string;
    password: string;
  };
  const address = {
    host: '127.0.0.1',
    port: await portOf(bench, { host, port }, roundTripMs, passive?.ports),
  };
  const user = { user: username, pass: await obscure(rclone, password) };
  const tls = { explicit_tls: 'true', no_check_certificate: 'true' };
  return {
    name,
    protocol: 'ftps',
    endpoint: { ...server.request, ...address, name, base_path: folder },
    folder,
    remote: { type: 'ftp', host: address.host, port: String(address.port), ...user, ...tls },
    root: `${name}:${folder}`,
  };
}

/** Starts Ceph's S3 gateway, which keeps its objects in memory. */
async function startS3Side(bench: Bench, name: string, roundTripMs: number): Promise<Side> {
  const server = await s3Endpoint(await startRadosgw(), BUCKET);
  bench.defer(server.stop);
  const request = server.request as {
    endpoint_url: string;
    region: string;
    access_key_id: string;
    secret_access_key: string;
  };
  const endpoint = await urlOf(bench, request.endpoint_url, roundTripMs);
  const { region, access_key_id, secret_access_key } = request;
  const account = { provider: 'Ceph', endpoint, region, access_key_id, secret_access_key };
  return {
    name,
    protocol: 's3',
    endpoint: { ...request, endpoint_url: endpoint, name },
    folder: null,
    remote: { type: 's3', no_check_bucket: 'true', ...account },
    root: `${name}:${BUCKET}`,
  };
}

/** Starts Azurite, which keeps its blobs in memory. */
async function startAzureSide(bench: Bench, name: string, roundTripMs: number): Promise<Side> {
  const server = await azureEndpoint(await startAzurite());
  bench.defer(server.stop);
  const request = server.request as { endpoint_url: string; account: string; account_key: string };
  const endpoint = await urlOf(bench, request.endpoint_url, roundTripMs);
  const service = new BlobServiceClient(
    endpoint,
    new StorageSharedKeyCredential(request.account, request.account_key),
  );
  // Without a SAS, rclone accepts only the address of the real service.
  const sas_url = await service.getContainerClient(CONTAINER).generateSasUrl({
    permissions: ContainerSASPermissions.parse('rcwdl'),
    expiresOn: new Date(Date.now() + A_DAY_MS),
  });
  return {
    name,
    protocol: 'azure',
    endpoint: { ...request, endpoint_url: endpoint, name },
    folder: null,
    remote: { type: 'azureblob', sas_url },
    root: `${name}:${CONTAINER}`,
  };
}

async function folderOf(bench: Bench, name: string): Promise<string> {
  const folder = await mkdtemp(
    join(existsSync('/dev/shm') ? '/dev/shm' : bench.folder, `waybill-bench-${name}-`),
  );
  bench.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'out'));
  return folder;
}

async function portOf(
  bench: Bench,
  target: { host: string; port: number },
  roundTripMs: number,
  morePorts: readonly number[] = [],
) {
  return roundTripMs > 0 ? startProxy(bench, target, roundTripMs, morePorts) : target.port;
}

async function urlOf(bench: Bench, address: string, roundTripMs: number): Promise<string> {
  const url = new URL(address);
  url.port = String(
    await portOf(bench, { host: url.hostname, port: Number(url.port) }, roundTripMs),
  );
  return url.href;
}
