import { randomBytes, randomUUID } from 'node:crypto';
import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import { expect, onTestFinished, test } from 'vitest';
import { contentHeaders } from '../../../../src/adapters/files/http/content-headers.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { shareAzurite, whyNoAzurite } from '../../../support/file-servers/azure/azurite.ts';
import { shareRadosgw, whyNoRadosgw } from '../../../support/file-servers/s3/radosgw.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { endpointOn as azureOn } from '../azure/endpoint-on.ts';
import { upload } from '../contract.ts';
import { type Server, endpointOn as s3On } from '../s3/endpoint-on.ts';

const HEADERS = {
  contentType: 'text/csv; charset=utf-8',
  contentEncoding: 'gzip',
  contentLanguage: 'de-AT',
  contentDisposition: 'attachment; filename="a b.csv"',
  cacheControl: 'no-store',
};
const never = new AbortController().signal;

interface Started {
  endpoint: FileEndpoint;
  /** Asks the server without the adapter. */
  headersOf(name: string): Promise<object>;
  stop(): Promise<void>;
}

async function onS3(server: Server & { stop(): Promise<void> }): Promise<Started> {
  const { endpointUrl: endpoint, region, accessKeyId, secretAccessKey } = server;
  const credentials = { accessKeyId, secretAccessKey };
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  return {
    endpoint: s3On(server),
    async headersOf(Key) {
      const head = new HeadObjectCommand({ Bucket: server.bucket ?? 'bucket', Key });
      const found = await client.send(head);
      return {
        contentType: found.ContentType,
        contentEncoding: found.ContentEncoding,
        contentLanguage: found.ContentLanguage,
        contentDisposition: found.ContentDisposition,
        cacheControl: found.CacheControl,
      };
    },
    async stop() {
      client.destroy();
      await server.stop();
    },
  };
}

async function onCeph(): Promise<Started> {
  const server = { ...(await shareRadosgw()), bucket: `bucket-${randomUUID()}` };
  await server.createBucket(server.bucket);
  return onS3(server);
}

async function onStrictServer(): Promise<Started> {
  const server = await startS3Server();
  server.createBucket('bucket');
  return onS3(server);
}

async function onAzure(): Promise<Started> {
  const server = await shareAzurite();
  await server.createContainer('container');
  const credential = new StorageSharedKeyCredential(server.account, server.accountKey);
  const service = new BlobServiceClient(server.endpointUrl, credential);
  const container = service.getContainerClient('container');
  return {
    endpoint: azureOn(server),
    headersOf: (name) => container.getBlobClient(name).getProperties(),
    stop: server.stop,
  };
}

const KINDS = [
  { name: 'Ceph', whyNot: await whyNoRadosgw(), start: onCeph },
  { name: 'the strict S3 server', whyNot: null, start: onStrictServer },
  { name: 'Azurite', whyNot: await whyNoAzurite(), start: onAzure },
];

for (const { name, whyNot, start } of KINDS) {
  const title = `${name} gets the headers of a file, and tells them`;
  test.skipIf(whyNot)(whyNot === null ? title : `${title} (${whyNot})`, async () => {
    const { endpoint, headersOf, stop } = await start();
    onTestFinished(async () => {
      await endpoint.close();
      await stop();
    });
    for (const size of [0, 1_000, 100_000, (8 << 20) + 1]) {
      const file = `headers/${size}`;
      await upload(endpoint, file, randomBytes(size), { headers: HEADERS });
      expect(await headersOf(file)).toMatchObject(HEADERS);
      const source = await endpoint.openSource(file, never);
      expect(source.headers).toEqual(HEADERS);
      await source.close();
    }
  });
}

test('a header that a server may reject or change is left out', () => {
  const odd = {
    contentType: 'text/plain',
    contentDisposition: 'attachment; filename="ü.txt"',
    contentLanguage: 'x'.repeat(1_025),
    cacheControl: 'no-store,  private',
    contentEncoding: 'aws-chunked,gzip',
  };
  expect(contentHeaders(odd)).toEqual({ contentType: 'text/plain', contentEncoding: 'gzip' });
  expect(contentHeaders({ contentEncoding: 'aws-chunked' })).toEqual({});
  expect(contentHeaders({ contentEncoding: 'gzip,aws-chunked' })).toEqual({
    contentEncoding: 'gzip',
  });
});
