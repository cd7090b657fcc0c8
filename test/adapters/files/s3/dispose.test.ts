import { randomBytes } from 'node:crypto';
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { expect, test } from 'vitest';
import { newId } from '../../../../src/domain/ids.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { moveWith } from '../../../support/service/move.ts';
import { download, upload } from '../contract.ts';
import { endpointOn, type Given, useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const METADATA = { ContentType: 'text/csv', CacheControl: 'no-store', Metadata: { owner: 'Ann' } };
const BODY = 'the report';

const s3 = useS3Server();

async function put(Key: string): Promise<void> {
  await s3.client.send(new PutObjectCommand({ Bucket: 'bucket', Key, Body: BODY, ...METADATA }));
}

/** Stores an object whose ETag is that of a multipart upload. */
async function putInParts(Key: string): Promise<void> {
  const object = { Bucket: 'bucket', Key };
  const { UploadId } = await s3.client.send(
    new CreateMultipartUploadCommand({ ...object, ...METADATA, ChecksumAlgorithm: 'CRC32' }),
  );
  const upload = { ...object, UploadId };
  const { ETag, ChecksumCRC32 } = await s3.client.send(
    new UploadPartCommand({ ...upload, PartNumber: 1, Body: BODY }),
  );
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag, ChecksumCRC32 }] };
  await s3.client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
}

/** Opens `a.csv` of a folder, as a transfer does, and returns what then moves it to `done/`. */
async function moveOf(folder: string, settings: NonNullable<Given['settings']> = {}) {
  const over = s3.endpoint({ settings });
  const { identity } = await over.openSource(`${folder}/a.csv`, never);
  const moving = { transferId: newId('txr'), identity, moveTo: `${folder}/done/`, signal: never };
  return {
    move: () => over.dispose(`${folder}/a.csv`, moving),
    moved: async () => (await over.list(`${folder}/done`, never)).map(({ name }) => name),
  };
}

test.each([
  ['an object of one request', put, {}],
  ['an object in parts', putInParts, {}],
  ['an object that gets a KMS key', put, { sse: 'aws:kms' }],
] as const)('a move finds its copy of %s if the answer was lost', async (name, store, settings) => {
  const folder = `lost/${name}`;
  await store(`${folder}/a.csv`);
  const { move, moved } = await moveOf(folder, settings);
  s3.server.fault({ operation: 'CopyObject', kind: 'lose-answer' });
  expect(await move()).toEqual({ outcome: 'moved', name: 'a.csv' });
  expect(await moved()).toEqual(['a.csv']);
  expect(s3.server.object('bucket', `${folder}/a.csv`)).toBeUndefined();
});

test.each([
  ['of one request', put],
  ['in parts', putInParts],
])('a move that could not delete its source, %s, continues', async (name, store) => {
  const folder = `interrupted/${name}`;
  await store(`${folder}/a.csv`);
  const { move, moved } = await moveOf(folder);
  s3.server.fault({ operation: 'DeleteObject', kind: 'error', code: 'AccessDenied' });
  await expect(move()).rejects.toMatchObject({ code: 'permission_denied' });
  expect(await move()).toEqual({ outcome: 'moved', name: 'a.csv' });
  expect(await moved()).toEqual(['a.csv']);
  const copy = await s3.client.send(
    new HeadObjectCommand({ Bucket: 'bucket', Key: `${folder}/done/a.csv` }),
  );
  expect(copy).toMatchObject(METADATA);
});

test.each([
  ['the condition of Ceph', /^x-amz-delete/, [400, 204]],
  ['every condition', /^(x-amz-delete|if-match)/, [400, 400, 204]],
])('a server that rejects %s deletes the source', async (_, refusedHeaders, statuses) => {
  const other = await startS3Server({ refusedHeaders });
  other.createBucket('bucket');
  const over = endpointOn(other);
  try {
    await upload(over, 'a.csv', Buffer.from(BODY));
    const { identity } = await over.openSource('a.csv', never);
    const deleting = { transferId: newId('txr'), identity, moveTo: null, signal: never };
    expect(await over.dispose('a.csv', deleting)).toEqual({ outcome: 'deleted' });
    const deletes = other.requests.filter(({ operation }) => operation === 'DeleteObject');
    expect(deletes.map(({ status }) => status)).toEqual(statuses);
  } finally {
    await over.close();
    await other.stop();
  }
});

test('a move keeps the object in parts that another transfer moved', async () => {
  await putInParts('kept/a.csv');
  expect(await (await moveOf('kept')).move()).toEqual({ outcome: 'moved', name: 'a.csv' });
  await putInParts('kept/a.csv');
  const { move, moved } = await moveOf('kept');
  const name = expect.stringMatching(/^a\.txr_\w{26}\.csv$/);
  expect(await move()).toEqual({ outcome: 'moved', name });
  expect(await moved()).toEqual(['a.csv', name]);
});

test.each([
  ['one request', 1_000],
  ['parts', (8 << 20) + 1],
])(
  'a copy under another name of its bucket, by %s, is not deleted as its source',
  async (how, size) => {
    const key = `two names/${how}`;
    const content = randomBytes(size);
    // As two endpoints, whose buckets are one.
    const [from, to] = [s3.endpoint(), s3.endpoint()];
    await upload(from, key, content);
    const transferId = newId('txr');
    const source = { endpoint: from, path: key };
    async function moveTo(path: string) {
      const destination = { endpoint: to, path };
      const moved = await moveWith({ transferId, source, destination, removesSource: true });
      const identity = { size, version: moved.sourceVersion };
      return from.dispose(key, { transferId, identity, moveTo: null, signal: never });
    }
    await expect(moveTo(key)).rejects.toMatchObject({ code: 'destination_is_source' });
    expect((await download(to, key)).equals(content)).toBe(true);
  },
);

test('a copy that another transfer made is a source like any other', async () => {
  const over = s3.endpoint();
  await upload(over, 'chain/a', Buffer.from(BODY));
  const copy = async (from: string, to: string) => {
    const transferId = newId('txr');
    const ends = {
      source: { endpoint: over, path: from },
      destination: { endpoint: over, path: to },
    };
    const moved = await moveWith({ transferId, ...ends, removesSource: true });
    const identity = { size: BODY.length, version: moved.sourceVersion };
    return over.dispose(from, { transferId, identity, moveTo: null, signal: never });
  };
  expect(await copy('chain/a', 'chain/b')).toEqual({ outcome: 'deleted' });
  expect(await copy('chain/b', 'chain/c')).toEqual({ outcome: 'deleted' });
});
