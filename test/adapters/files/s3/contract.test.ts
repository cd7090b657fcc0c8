import { randomUUID } from 'node:crypto';
import {
  GetObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3';
import { shareRadosgw, whyNoRadosgw } from '../../../support/file-servers/s3/radosgw.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { describeFileEndpoint, type EndpointFixture } from '../contract.ts';
import { clientOn, endpointOn, type Server } from './endpoint-on.ts';

function fixtureOn(server: Server & { stop(): Promise<void> }): EndpointFixture {
  const client = clientOn(server);
  const bucket = { Bucket: server.bucket ?? 'bucket' };
  return {
    endpoint: endpointOn(server),
    path: (name) => `folder/${name}`,
    async put(name, content) {
      await client.send(new PutObjectCommand({ ...bucket, Key: `folder/${name}`, Body: content }));
    },
    async get(name) {
      try {
        const { Body } = await client.send(
          new GetObjectCommand({ ...bucket, Key: `folder/${name}` }),
        );
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
  const server = { ...(await shareRadosgw()), bucket: `bucket-${randomUUID()}` };
  await server.createBucket(server.bucket);
  return fixtureOn(server);
});

describeFileEndpoint('S3 as strict as Amazon', null, async () => {
  const server = await startS3Server();
  server.createBucket('bucket');
  return fixtureOn(server);
});
