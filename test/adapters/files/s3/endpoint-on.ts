import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  createS3Endpoint,
  type S3EndpointOptions,
} from '../../../../src/adapters/files/s3/endpoint.ts';
import type { S3Settings } from '../../../../src/domain/protocols/s3.ts';
import { type S3Server, startS3Server } from '../../../support/file-servers/s3/server/server.ts';

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
  endpoint(given?: Given): FileEndpoint;
}

/** Starts the server before the tests of a file, and removes its faults after each of them. */
export function useS3Server(): S3ForTests {
  let server: S3Server;
  let client: S3Client;
  const open: FileEndpoint[] = [];
  beforeAll(async () => {
    server = await startS3Server();
    server.createBucket('bucket');
    client = clientOn(server);
  });
  afterEach(async () => {
    server.clearFaults();
    for (const endpoint of open.splice(0)) await endpoint.close();
  });
  afterAll(async () => {
    client?.destroy();
    await server?.stop();
  });
  return {
    get server() {
      return server;
    },
    get client() {
      return client;
    },
    endpoint(given = {}) {
      const made = endpointOn(server, given);
      open.push(made);
      return made;
    },
  };
}
