import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import type { CommitProof } from '../../../src/adapters/files/port.ts';
import type { ProtocolName } from '../../../src/domain/protocols/index.ts';
import { type Azurite, shareAzurite, whyNoAzurite } from './azure/azurite.ts';
import { startFtpsServer, whyNoFtpsServer } from './ftps/server.ts';
import { type Ceph, shareRadosgw, whyNoRadosgw } from './s3/radosgw.ts';
import type { Operation } from './s3/server/operations.ts';
import { type S3Server, startS3Server } from './s3/server/server.ts';
import { startSftpServer, whyNoSftpServer } from './sftp/server.ts';

/**
 * A real server of one protocol, and direct access to its files for a test. Names may contain
 * folders.
 */
export interface TestEndpoint {
  /** Its configuration, without a name: the test chooses that. */
  request: Record<string, unknown>;
  put(name: string, content: Buffer): Promise<void>;
  /** Null if there is no such file. */
  read(name: string): Promise<Readable | null>;
  /** A value that every write of a file changes, even a write of the same bytes. */
  stamp(name: string): Promise<string>;
  /**
   * Lists everything below a folder: files, parts under temporary names, started uploads, blobs
   * with only staged blocks.
   */
  names(folder: string): Promise<string[]>;
  /** Folder of its files on this machine; null if it stores them another way. */
  root: string | null;
  stop(): Promise<void>;
}

export interface EndpointOptions {
  /** The signed-in user may read everything and write nothing. */
  readOnly?: boolean;
  /**
   * Limits the room to this many bytes. SFTP and FTPS: as root only, and `put` and the like do not
   * see it. Ceph: counts committed bytes.
   */
  room?: number;
  /** FTPS: the address to listen on, and the ports of data connections. */
  passive?: { host: string; ports: readonly number[] };
}

export interface EndpointKind {
  protocol: ProtocolName;
  /** Null if its server can run here, else the reason. */
  whyNot: string | null;
  /**
   * The checksums that a destination of this kind compares: for a file sent in one piece, and for
   * one in several.
   */
  compares: Record<'whole' | 'parts', CommitProof['destinationChecksum']>;
  start(options?: EndpointOptions): Promise<TestEndpoint>;
}

export const ENDPOINT_KINDS = {
  sftp: {
    protocol: 'sftp',
    whyNot: await whyNoSftpServer(),
    compares: { whole: 'none', parts: 'none' },
    start: startSftp,
  },
  ftps: {
    protocol: 'ftps',
    whyNot: await whyNoFtpsServer('proftpd'),
    compares: { whole: 'none', parts: 'none' },
    start: startFtps,
  },
  's3-ceph': {
    protocol: 's3',
    whyNot: await whyNoRadosgw(),
    compares: { whole: 'md5', parts: 'md5' },
    start: startCeph,
  },
  's3-strict': {
    protocol: 's3',
    whyNot: null,
    compares: { whole: 'md5', parts: 'crc32' },
    start: startStrictS3,
  },
  azure: {
    protocol: 'azure',
    whyNot: await whyNoAzurite(),
    compares: { whole: 'md5', parts: 'md5' },
    start: startAzure,
  },
} as const satisfies Record<string, EndpointKind>;

export type EndpointName = keyof typeof ENDPOINT_KINDS;
export const ENDPOINT_NAMES = Object.keys(ENDPOINT_KINDS) as EndpointName[];

/** Returns why one of these cannot run here, for the name of a skipped test; null if all can. */
export function whyNotAll(names: readonly EndpointName[]): string | null {
  return names.map((name) => ENDPOINT_KINDS[name].whyNot).find((reason) => reason !== null) ?? null;
}

/** Returns the URI of a file, for an endpoint that is configured under the name of its kind. */
export function uriOf(endpoint: EndpointName, name: string): string {
  return `${ENDPOINT_KINDS[endpoint].protocol}://${endpoint}/${name.split('/').map(encodeURIComponent).join('/')}`;
}

async function startSftp({
  readOnly = false,
  room = 0,
}: EndpointOptions = {}): Promise<TestEndpoint> {
  const server = await startSftpServer({ readOnly, smallDiskBytes: room });
  const { host, port, username, privateKey, hostKeySha256, root, smallDisk, stop } = server;
  const base_path = room > 0 ? smallDisk : root;
  const request = {
    protocol: 'sftp',
    host,
    port,
    base_path,
    username,
    private_key: privateKey,
    host_key_sha256: hostKeySha256,
  };
  return { request, ...filesIn(root), stop };
}

async function startFtps({
  readOnly = false,
  room = 0,
  passive,
}: EndpointOptions = {}): Promise<TestEndpoint> {
  const [from, to] = [passive?.ports[0], passive?.ports.at(-1)];
  const behind = passive ? { host: passive.host, extraConfig: `PassivePorts ${from} ${to}` } : {};
  const server = await startFtpsServer({
    kind: 'proftpd',
    tls: 'explicit',
    readOnly,
    smallDiskBytes: room,
    ...behind,
  });
  const { host, port, username, password, caPem, root, smallDisk, stop } = server;
  const base_path = room > 0 ? smallDisk : root;
  const request = { protocol: 'ftps', host, port, base_path, username, password, ca_pem: caPem };
  return { request, ...filesIn(root), stop };
}

function filesIn(root: string): Omit<TestEndpoint, 'request' | 'stop'> {
  const at = (name: string) => join(root, name);
  return {
    root,
    async put(name, content) {
      await mkdir(dirname(at(name)), { recursive: true });
      await writeFile(at(name), content);
    },
    read: async (name) =>
      existsSync(at(name)) ? createReadStream(at(name), { highWaterMark: 1 << 20 }) : null,
    async stamp(name) {
      const { ino, mtimeNs } = await stat(at(name), { bigint: true });
      return `${ino} ${mtimeNs}`;
    },
    async names(folder) {
      if (!existsSync(at(folder))) return [];
      const entries = await readdir(at(folder), { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1));
    },
  };
}

async function startCeph({
  readOnly = false,
  room = 0,
}: EndpointOptions = {}): Promise<TestEndpoint> {
  const server = await shareRadosgw();
  const bucket = `bucket-${randomUUID()}`;
  const endpoint = await s3Endpoint(server, bucket);
  if (readOnly) await server.deny(bucket, 's3:PutObject');
  if (room > 0) await server.setQuota(bucket, room);
  return endpoint;
}

async function startStrictS3({ readOnly = false }: EndpointOptions = {}): Promise<TestEndpoint> {
  const server = await startS3Server();
  const endpoint = await s3Endpoint(server);
  const refused: Operation[] = readOnly ? ['PutObject', 'CreateMultipartUpload'] : [];
  for (const operation of refused)
    server.fault({
      operation,
      kind: 'error',
      code: 'AccessDenied',
      times: Number.POSITIVE_INFINITY,
    });
  return endpoint;
}

export async function s3Endpoint(
  server: Ceph | S3Server,
  Bucket = 'bucket',
): Promise<TestEndpoint> {
  const { endpointUrl, region, accessKeyId, secretAccessKey } = server;
  await server.createBucket(Bucket);
  const s3 = new S3Client({
    endpoint: endpointUrl,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
  return {
    request: {
      protocol: 's3',
      bucket: Bucket,
      region,
      endpoint_url: endpointUrl,
      force_path_style: true,
      access_key_id: accessKeyId,
      secret_access_key: secretAccessKey,
    },
    root: null,
    async put(name, content) {
      await s3.send(new PutObjectCommand({ Bucket, Key: name, Body: content }));
    },
    async read(name) {
      try {
        const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: name }));
        return Body as Readable;
      } catch (error) {
        if ((error as Error).name === 'NoSuchKey') return null;
        throw error;
      }
    },
    async stamp(name) {
      const { ETag, LastModified } = await s3.send(new HeadObjectCommand({ Bucket, Key: name }));
      return `${ETag} ${LastModified?.toISOString()}`;
    },
    async names(folder) {
      const found: string[] = [];
      for await (const { Contents = [] } of paginateListObjectsV2(
        { client: s3 },
        { Bucket, Prefix: `${folder}/` },
      ))
        found.push(...Contents.map(({ Key }) => Key as string));
      const { Uploads = [] } = await s3.send(
        new ListMultipartUploadsCommand({ Bucket, Prefix: `${folder}/` }),
      );
      return [...found, ...Uploads.map(({ Key, UploadId }) => `${Key} (upload ${UploadId})`)];
    },
    async stop() {
      s3.destroy();
      await server.stop();
    },
  };
}

async function startAzure({ readOnly = false }: EndpointOptions = {}): Promise<TestEndpoint> {
  const server = await shareAzurite();
  const endpoint = await azureEndpoint(server);
  if (!readOnly) return endpoint;
  const { account_key: _, ...request } = endpoint.request;
  return {
    ...endpoint,
    request: { ...request, sas_token: await server.sasToken('container', 'rl') },
  };
}

export async function azureEndpoint({
  endpointUrl,
  account,
  accountKey,
  createContainer,
  stop,
}: Azurite): Promise<TestEndpoint> {
  await createContainer('container');
  const credential = new StorageSharedKeyCredential(account, accountKey);
  const container = new BlobServiceClient(endpointUrl, credential).getContainerClient('container');
  return {
    request: {
      protocol: 'azure',
      account,
      container: 'container',
      endpoint_url: endpointUrl,
      account_key: accountKey,
    },
    root: null,
    async put(name, content) {
      await container.getBlockBlobClient(name).uploadData(content);
    },
    async read(name) {
      const blob = container.getBlobClient(name);
      return (await blob.exists())
        ? ((await blob.download()).readableStreamBody as Readable)
        : null;
    },
    async stamp(name) {
      return String((await container.getBlobClient(name).getProperties()).etag);
    },
    async names(folder) {
      const found: string[] = [];
      for await (const { name } of container.listBlobsFlat({
        prefix: `${folder}/`,
        includeUncommitedBlobs: true,
      }))
        found.push(name);
      return found;
    },
    stop,
  };
}

/** Lowercase hex SHA-256 of a file of any size; null if there is none. */
export async function sha256At(endpoint: TestEndpoint, name: string): Promise<string | null> {
  const content = await endpoint.read(name);
  if (!content) return null;
  const hash = createHash('sha256');
  await pipeline(content, hash);
  return hash.digest('hex');
}
