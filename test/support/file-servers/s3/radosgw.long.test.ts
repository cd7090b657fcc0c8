import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Radosgw, startRadosgw, whyNoRadosgw } from './radosgw.ts';

const reason = await whyNoRadosgw();

let radosgw: Radosgw;
const clients: S3Client[] = [];
const object = { Bucket: 'bucket', Key: 'a key/with ä' };

beforeAll(async () => {
  if (reason !== null) return;
  radosgw = await startRadosgw();
  await radosgw.createBucket(object.Bucket);
});

beforeEach(({ skip }) => skip(reason !== null, reason ?? ''));

afterAll(async () => {
  for (const client of clients) client.destroy();
  await radosgw?.stop();
});

function connect({ secretAccessKey = radosgw.secretAccessKey } = {}): S3Client {
  const { endpointUrl, accessKeyId, region } = radosgw;
  const client = new S3Client({
    endpoint: endpointUrl,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
  clients.push(client);
  return client;
}

test('stores an object', async () => {
  const s3 = connect();
  await s3.send(new PutObjectCommand({ ...object, Body: 'content' }));
  const { Body, ETag } = await s3.send(new GetObjectCommand(object));
  expect(await Body?.transformToString()).toBe('content');
  expect(ETag).toBe('"9a0364b9e99bb480dd25e1f0284c8555"');
});

test('rejects another secret, a wrong checksum and a failed precondition', async () => {
  const put = (client: S3Client, input: object) =>
    client.send(new PutObjectCommand({ ...object, Body: 'other', ...input }));
  await put(connect(), {});
  await expect(put(connect({ secretAccessKey: 'wrong' }), {})).rejects.toMatchObject({
    name: 'SignatureDoesNotMatch',
  });
  await expect(put(connect(), { ContentMD5: 'CY9rzUYh03PK3k6DJie09g==' })).rejects.toMatchObject({
    name: 'BadDigest',
  });
  await expect(put(connect(), { IfNoneMatch: '*' })).rejects.toMatchObject({
    name: 'PreconditionFailed',
  });
});
