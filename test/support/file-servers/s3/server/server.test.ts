import { createHash, randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  ChecksumAlgorithm,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  S3Client,
  type S3ClientConfig,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createCertificates } from '../../../network/certificates.ts';
import { type S3Server, startS3Server } from './server.ts';

const Bucket = 'bucket';
const object = { Bucket, Key: 'folder/a key + ä' };
const MIB = 1 << 20;

let server: S3Server;
let s3: S3Client;

beforeEach(async () => {
  server = await startS3Server();
  server.createBucket(Bucket);
  s3 = connect();
});

afterEach(async () => {
  s3.destroy();
  await server.stop();
});

function connect(options: S3ClientConfig & { secretAccessKey?: string } = {}): S3Client {
  const { endpointUrl, accessKeyId, secretAccessKey, region } = server;
  const credentials = { accessKeyId, secretAccessKey: options.secretAccessKey ?? secretAccessKey };
  return new S3Client({
    endpoint: endpointUrl,
    region,
    credentials,
    forcePathStyle: true,
    maxAttempts: 1,
    ...options,
  });
}

const put = (input: Partial<PutObjectCommandInput> = {}) =>
  s3.send(new PutObjectCommand({ ...object, Body: 'content', ...input }));
const get = async (input: object = {}) => {
  const { Body, ...rest } = await s3.send(new GetObjectCommand({ ...object, ...input }));
  return { text: await Body!.transformToString(), ...rest };
};

test('stores an object with its headers', async () => {
  await put({
    ContentType: 'text/plain',
    Metadata: { a: 'b' },
    StorageClass: 'STANDARD_IA',
    ServerSideEncryption: 'AES256',
  });
  const expected = {
    ETag: '"9a0364b9e99bb480dd25e1f0284c8555"',
    ContentLength: 7,
    ContentType: 'text/plain',
    Metadata: { a: 'b' },
    StorageClass: 'STANDARD_IA',
    ServerSideEncryption: 'AES256',
  };
  expect(await get()).toMatchObject({ text: 'content', ...expected });
  expect(await s3.send(new HeadObjectCommand(object))).toMatchObject(expected);
  await s3.send(new DeleteObjectCommand(object));
  await expect(get()).rejects.toMatchObject({ name: 'NoSuchKey' });
});

test('deletes only the object that the condition names', async () => {
  await put();
  const { ETag } = await s3.send(new HeadObjectCommand(object));
  await expect(
    s3.send(new DeleteObjectCommand({ ...object, IfMatch: '"other"' })),
  ).rejects.toMatchObject({ name: 'PreconditionFailed' });
  await s3.send(new DeleteObjectCommand({ ...object, IfMatch: ETag }));
  await expect(
    s3.send(new DeleteObjectCommand({ ...object, IfMatch: ETag })),
  ).rejects.toMatchObject({ name: 'NoSuchKey' });
});

test('copies an object under the conditions for both', async () => {
  await put({ Metadata: { a: 'b' } });
  const copy = {
    Bucket,
    Key: 'copy',
    CopySource: [Bucket, ...object.Key.split('/')].map(encodeURIComponent).join('/'),
  };
  const send = (more: object) => s3.send(new CopyObjectCommand({ ...copy, ...more }));
  await expect(send({ CopySourceIfMatch: '"other"' })).rejects.toMatchObject({
    name: 'PreconditionFailed',
  });
  await send({ IfNoneMatch: '*' });
  await expect(send({ IfNoneMatch: '*' })).rejects.toMatchObject({ name: 'PreconditionFailed' });
  expect(await get({ Key: 'copy' })).toMatchObject({ text: 'content', Metadata: { a: 'b' } });
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'copy' }));
});

test('rejects another secret, another key and an unknown bucket', async () => {
  const attempt = (client: S3Client, bucket = Bucket) =>
    client.send(new GetObjectCommand({ Bucket: bucket, Key: 'key' }));
  await expect(attempt(connect({ secretAccessKey: 'wrong' }))).rejects.toMatchObject({
    name: 'SignatureDoesNotMatch',
  });
  const credentials = { accessKeyId: 'unknown', secretAccessKey: server.secretAccessKey };
  await expect(attempt(connect({ credentials }))).rejects.toMatchObject({
    name: 'InvalidAccessKeyId',
  });
  await expect(attempt(s3, 'unknown')).rejects.toMatchObject({ name: 'NoSuchBucket' });
  expect((await fetch(`${server.endpointUrl}/${Bucket}/key`)).status).toBe(403);
});

test.for(Object.values(ChecksumAlgorithm).filter((name) => /^(CRC32C?|SHA1|SHA256)$/.test(name)))(
  'checks %s in headers and trailers, and returns it',
  async (algorithm) => {
    const field = `Checksum${algorithm}` as const;
    const sent = await put({ ChecksumAlgorithm: algorithm });
    const streamed = await put({
      ChecksumAlgorithm: algorithm,
      Body: Readable.from([Buffer.from('content')]),
      ContentLength: 7,
    });
    expect(server.requests.at(-1)!.headers['x-amz-trailer']).toBe(
      `x-amz-checksum-${algorithm.toLowerCase()}`,
    );
    const shown = (await get({ ChecksumMode: 'ENABLED' }))[field as 'ChecksumCRC32'];
    expect(shown).toBeTruthy();
    expect([sent, streamed]).toMatchObject([{ [field]: shown }, { [field]: shown }]);
    await expect(put({ [field]: shown, Body: 'other' })).rejects.toMatchObject({
      name: 'BadDigest',
    });
  },
);

test('checks CRC64NVME, Content-MD5 and the signed hash', async () => {
  await put({
    Body: '123456789',
    ChecksumCRC64NVME: Buffer.from('ae8b14860a799888', 'hex').toString('base64'),
  });
  await expect(put({ ChecksumCRC64NVME: 'AAAAAAAAAAA=' })).rejects.toMatchObject({
    name: 'BadDigest',
  });
  await put({ ContentMD5: createHash('md5').update('content').digest('base64') });
  await expect(put({ ContentMD5: 'CY9rzUYh03PK3k6DJie09g==' })).rejects.toMatchObject({
    name: 'BadDigest',
  });
  const afterSigning = { step: 'deserialize', name: 'tamper' } as const;
  s3.middlewareStack.add(
    (next) => (args) =>
      next({ ...args, request: Object.assign(args.request as object, { body: 'CONTENT' }) }),
    afterSigning,
  );
  await expect(put()).rejects.toMatchObject({ name: 'XAmzContentSHA256Mismatch' });
});

test('checks preconditions', async () => {
  const { ETag } = await put({ IfNoneMatch: '*' });
  await expect(put({ IfNoneMatch: '*' })).rejects.toMatchObject({ name: 'PreconditionFailed' });
  await expect(put({ IfMatch: '"other"' })).rejects.toMatchObject({ name: 'PreconditionFailed' });
  await put({ IfMatch: ETag });
  await expect(get({ IfMatch: '"other"' })).rejects.toMatchObject({ name: 'PreconditionFailed' });
  await expect(get({ IfNoneMatch: ETag })).rejects.toMatchObject({
    $metadata: { httpStatusCode: 304 },
  });
});

test('returns ranges', async () => {
  await put();
  expect(await get({ Range: 'bytes=2-3' })).toMatchObject({
    text: 'nt',
    ContentRange: 'bytes 2-3/7',
  });
  expect(await get({ Range: 'bytes=-2' })).toMatchObject({ text: 'nt' });
  expect(await get({ Range: 'bytes=5-' })).toMatchObject({ text: 'nt' });
  await expect(get({ Range: 'bytes=7-' })).rejects.toMatchObject({ name: 'InvalidRange' });
});

test('lists by prefix, delimiter and page', async () => {
  for (const Key of ['a/1', 'a/2', 'a b&c', 'b', 'c/1']) await put({ Key });
  const entries: unknown[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page = await s3.send(
      new ListObjectsV2Command({ Bucket, Delimiter: '/', MaxKeys: 2, ContinuationToken }),
    );
    entries.push([
      ...(page.Contents ?? []).map(({ Key }) => Key),
      ...(page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix),
    ]);
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken);
  expect(entries).toEqual([
    ['a b&c', 'a/'],
    ['b', 'c/'],
  ]);
  const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'a/' }));
  expect(Contents).toMatchObject([{ Key: 'a/1', Size: 7 }, { Key: 'a/2' }]);
});

async function upload(bodies: Buffer[], algorithm: ChecksumAlgorithm = 'CRC32') {
  const { UploadId } = await s3.send(
    new CreateMultipartUploadCommand({ ...object, ChecksumAlgorithm: algorithm }),
  );
  const parts: CompletedPart[] = [];
  for (const [index, Body] of bodies.entries()) {
    const part = { PartNumber: index + 1, ...object, UploadId };
    const { ETag, ChecksumCRC32, ChecksumSHA256 } = await s3.send(
      new UploadPartCommand({ ...part, Body, ChecksumAlgorithm: algorithm }),
    );
    parts.push({ PartNumber: index + 1, ETag, ChecksumCRC32, ChecksumSHA256 });
  }
  const complete = (Parts: object[] = parts, input: object = {}) =>
    s3.send(
      new CompleteMultipartUploadCommand({
        ...object,
        UploadId,
        MultipartUpload: { Parts },
        ...input,
      }),
    );
  return { UploadId, parts, complete };
}

test('assembles parts', async () => {
  const bodies = [randomBytes(5 * MIB), randomBytes(5 * MIB), Buffer.from('end')];
  const { UploadId, complete } = await upload(bodies, 'SHA256');
  const page = (PartNumberMarker: string) =>
    s3.send(new ListPartsCommand({ ...object, UploadId, MaxParts: 2, PartNumberMarker }));
  const pages = [await page('0'), await page('2')];
  expect(
    pages.map(({ IsTruncated, Parts }) => [IsTruncated, Parts?.map(({ Size }) => Size)]),
  ).toEqual([
    [true, [5 * MIB, 5 * MIB]],
    [false, [3]],
  ]);
  const md5s = bodies.map((body) => createHash('md5').update(body).digest());
  const { ETag, ChecksumSHA256 } = await complete();
  expect(ETag).toBe(`"${createHash('md5').update(Buffer.concat(md5s)).digest('hex')}-3"`);
  expect(ChecksumSHA256).toMatch(/=-3$/);
  const { Body } = await s3.send(new GetObjectCommand(object));
  expect(Buffer.concat(bodies).equals(await Body!.transformToByteArray())).toBe(true);
  expect(await get({ Range: `bytes=${10 * MIB - 1}-${10 * MIB + 1}` })).toMatchObject({
    ContentLength: 3,
  });
  await expect(complete()).rejects.toMatchObject({ name: 'NoSuchUpload' });
});

test('rejects an invalid completion', async () => {
  const { UploadId, parts, complete } = await upload([
    Buffer.alloc(5 * MIB),
    Buffer.alloc(1),
    Buffer.alloc(1),
  ]);
  const [first, second, third] = parts;
  await expect(complete([second!, first!])).rejects.toMatchObject({ name: 'InvalidPartOrder' });
  await expect(complete([{ ...first, ETag: '"other"' }])).rejects.toMatchObject({
    name: 'InvalidPart',
  });
  await expect(complete([first!, second!, third!])).rejects.toMatchObject({
    name: 'EntityTooSmall',
  });
  await expect(complete([{ ...first, ChecksumCRC32: undefined }])).rejects.toMatchObject({
    name: 'InvalidRequest',
  });
  await expect(complete([first!], { ChecksumCRC32: 'AAAAAA==' })).rejects.toMatchObject({
    name: 'BadDigest',
  });
  await put();
  await expect(complete([first!], { IfNoneMatch: '*' })).rejects.toMatchObject({
    name: 'PreconditionFailed',
  });
  const { Uploads } = await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: 'folder/' }));
  expect(Uploads).toMatchObject([{ UploadId, Key: object.Key }]);
  await s3.send(new AbortMultipartUploadCommand({ ...object, UploadId }));
  expect(server.uploads(Bucket)).toEqual([]);
  await expect(complete()).rejects.toMatchObject({ name: 'NoSuchUpload' });
});

test('stores zeros without disk space', async () => {
  await put({ Body: Buffer.alloc(64 * MIB) });
  const { files, size } = server.object(Bucket, object.Key)!.body;
  expect(size).toBe(64 * MIB);
  expect(statSync(files[0]!.path)).toMatchObject({ size: 64 * MIB, blocks: 0 });
});

test('fails as often as requested', async () => {
  server.fault({ operation: 'PutObject', kind: 'error', code: 'SlowDown', times: 2 });
  await expect(put()).rejects.toMatchObject({
    name: 'SlowDown',
    $metadata: { httpStatusCode: 503 },
  });
  await expect(put()).rejects.toMatchObject({ name: 'SlowDown' });
  await put();
});

test('completes with an error in a success', async () => {
  const { complete } = await upload([Buffer.from('a')]);
  server.fault({
    operation: 'CompleteMultipartUpload',
    kind: 'error-in-success',
    code: 'InternalError',
  });
  await expect(complete()).rejects.toMatchObject({ name: 'InternalError' });
  await complete();
});

test('cuts connections in the middle of a body', async () => {
  await put({ Body: Buffer.alloc(MIB) });
  server.fault({ operation: 'GetObject', kind: 'cut', afterBytes: 100_000 });
  const { Body } = await s3.send(new GetObjectCommand(object));
  let received = 0;
  const reading = (async () => {
    for await (const chunk of Body as Readable) received += chunk.length;
  })();
  await expect(reading).rejects.toThrow();
  // A reset may overtake bytes that the client has not read yet.
  expect(received).toBeLessThanOrEqual(100_000);
  server.fault({ operation: 'PutObject', kind: 'cut', afterBytes: 100_000 });
  await expect(put({ Body: Buffer.alloc(2 * MIB) })).rejects.toThrow();
  expect(server.object(Bucket, object.Key)!.body.size).toBe(MIB);
});

test('drops an answer after it carried out the request', async () => {
  server.fault({ operation: 'PutObject', kind: 'lose-answer' });
  await expect(put()).rejects.toThrow();
  expect(await get()).toMatchObject({ text: 'content' });
});

test('serves HTTPS', async () => {
  const { caPem, valid } = await createCertificates();
  await server.stop();
  server = await startS3Server({ tls: valid });
  server.createBucket(Bucket);
  s3 = connect({ requestHandler: { httpsAgent: { ca: caPem } } });
  await put();
  expect(await get()).toMatchObject({ text: 'content' });
  await expect(connect().send(new GetObjectCommand(object))).rejects.toThrow(/certificate|issuer/);
});
