import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  createS3Endpoint,
  type S3EndpointOptions,
} from '../../../../src/adapters/files/s3/endpoint.ts';
import type { S3Settings } from '../../../../src/domain/protocols/s3.ts';
import {
  type Operation,
  type S3Server,
  startS3Server,
} from '../../../support/file-servers/s3/server/server.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';

export interface Server {
  endpointUrl: string;
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  /** By default, the bucket is called "bucket". */
  bucket?: string;
}

export type Given = Partial<Omit<S3EndpointOptions, 'settings'>> & {
  settings?: Partial<S3Settings>;
};

/** Returns an endpoint on the bucket of a server. */
export function endpointOn(server: Server, { settings, ...given }: Given = {}): FileEndpoint {
  return createS3Endpoint({
    settings: {
      protocol: 's3',
      bucket: server.bucket ?? 'bucket',
      prefix: '',
      region: server.region,
      endpoint_url: server.endpointUrl,
      force_path_style: true,
      ca_pem: null,
      storage_class: null,
      sse: null,
      sse_kms_key_id: null,
      ...settings,
    },
    credentials: { access_key_id: server.accessKeyId, secret_access_key: server.secretAccessKey },
    maxConnections: 8,
    ...given,
  });
}

/** Returns a client of a server that has nothing of ours. */
export function clientOn({ endpointUrl, accessKeyId, secretAccessKey, region }: Server): S3Client {
  return new S3Client({
    endpoint: endpointUrl,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
}

/** A strict server for the tests of a file, with the bucket "bucket". */
export interface S3ForTests {
  readonly server: S3Server;
  /** Has nothing of ours. */
  readonly client: S3Client;
  /** Returns an endpoint that is closed after the test. */
  endpoint(given?: Given, on?: Server): FileEndpoint;
  /** Returns an endpoint behind a proxy. Both are closed after the test. */
  proxied(given?: Given): Promise<{ proxy: TcpProxy; over: FileEndpoint }>;
  /** Returns the content of an object. */
  get(key: string): Promise<Buffer>;
  put(key: string, content: Buffer): Promise<void>;
  requestsOf(operation: Operation): S3Server['requests'];
}

/** Starts the server before the tests of a file, and removes its faults after each of them. */
export function useS3Server(given: Parameters<typeof startS3Server>[0] = {}): S3ForTests {
  let server: S3Server;
  let client: S3Client;
  const open: FileEndpoint[] = [];
  const proxies: TcpProxy[] = [];
  beforeAll(async () => {
    server = await startS3Server(given);
    server.createBucket('bucket');
    client = clientOn(server);
  });
  afterEach(async () => {
    server.clearFaults();
    for (const endpoint of open.splice(0)) await endpoint.close();
    for (const proxy of proxies.splice(0)) await proxy.close();
  });
  afterAll(async () => {
    client?.destroy();
    await server?.stop();
  });
  function endpoint(given: Given = {}, on: Server = server): FileEndpoint {
    const made = endpointOn(on, given);
    open.push(made);
    return made;
  }
  return {
    get server() {
      return server;
    },
    get client() {
      return client;
    },
    endpoint,
    async proxied(given = {}) {
      const { hostname: host, port } = new URL(server.endpointUrl);
      const proxy = await startTcpProxy({ host, port: Number(port) });
      proxies.push(proxy);
      const settings = { endpoint_url: `http://127.0.0.1:${proxy.port}`, ...given.settings };
      return { proxy, over: endpoint({ ...given, settings }) };
    },
    async get(Key) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bucket', Key }));
      return Buffer.from((await Body?.transformToByteArray()) as Uint8Array);
    },
    async put(Key, Body) {
      await client.send(new PutObjectCommand({ Bucket: 'bucket', Key, Body }));
    },
    requestsOf: (operation) => server.requests.filter((request) => request.operation === operation),
  };
}
