import { GetObjectCommand, ListMultipartUploadsCommand, PutObjectCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { createS3Endpoint, type S3EndpointOptions } from '../../../src/adapters/files/s3/endpoint.ts';
import type { S3Settings } from '../../../src/domain/endpoint.ts';
import { startRadosgw, whyNoRadosgw } from '../../support/s3-radosgw.ts';
import { startS3Server } from '../../support/s3-server/server.ts';
import { describeFileEndpoint, type EndpointFixture } from './contract.ts';

interface Server {
  endpointUrl: string;
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  stop(): Promise<void>;
}

type Given = Partial<Omit<S3EndpointOptions, 'settings'>> & { settings?: Partial<S3Settings> };

function endpointOn(server: Server, { settings, ...given }: Given = {}): FileEndpoint {
  return createS3Endpoint({
    settings: {
      protocol: 's3',
      bucket: 'bucket',
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

function fixtureOn(server: Server): EndpointFixture {
  const { endpointUrl: endpoint, region, accessKeyId, secretAccessKey } = server;
  const client = new S3Client({ endpoint, region, credentials: { accessKeyId, secretAccessKey }, forcePathStyle: true });
  const bucket = { Bucket: 'bucket' };
  return {
    endpoint: endpointOn(server),
    path: (name) => `folder/${name}`,
    async put(name, content) {
      await client.send(new PutObjectCommand({ ...bucket, Key: `folder/${name}`, Body: content }));
    },
    async get(name) {
      try {
        const { Body } = await client.send(new GetObjectCommand({ ...bucket, Key: `folder/${name}` }));
        return Buffer.from((await Body?.transformToByteArray()) as Uint8Array);
      } catch (error) {
        if ((error as Error).name === 'NoSuchKey') return null;
        throw error;
      }
    },
    async names() {
      const names: string[] = [];
      for await (const { Contents = [] } of paginateListObjectsV2({ client }, bucket))
        names.push(...Contents.map(({ Key }) => Key as string));
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand(bucket));
      names.push(...Uploads.map(({ Key }) => `${Key}.part`));
      return names;
    },
    async stop() {
      client.destroy();
      await server.stop();
    },
  };
}

describeFileEndpoint('S3 on Ceph', await whyNoRadosgw(), async () => {
  const server = await startRadosgw();
  await server.createBucket('bucket');
  return fixtureOn(server);
});

describeFileEndpoint('S3 as strict as Amazon', null, async () => {
  const server = await startS3Server();
  server.createBucket('bucket');
  return fixtureOn(server);
});
