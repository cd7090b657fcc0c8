import { S3Client } from '@aws-sdk/client-s3';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  createS3Endpoint,
  type S3EndpointOptions,
} from '../../../../src/adapters/files/s3/endpoint.ts';
import type { S3Settings } from '../../../../src/domain/protocols/s3.ts';

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
