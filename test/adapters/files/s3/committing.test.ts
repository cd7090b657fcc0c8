import { randomBytes } from 'node:crypto';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { abandon, options, readAll, upload, whole, writeFrom } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

const s3 = useS3Server();

const errorOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('nothing was thrown'),
    (thrown: Error) => thrown,
  );

/** Memory in the form that a mover passes. */
function shared(content: Buffer): Uint8Array {
  const bytes = new Uint8Array(new SharedArrayBuffer(content.length));
  bytes.set(content);
  return bytes;
}

test.each([
  ['a consumer takes before it is looked at', 'NoSuchKey' as const],
  ['the user may not read', 'AccessDenied' as const],
])('commits an object that %s', async (_, code) => {
  // Its ETag does not tell its size.
  const over = s3.endpoint({ settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key' } });
  for (const operation of ['HeadObject', 'GetObject'] as const)
    s3.server.fault({ operation, kind: 'error', code });
  expect(await upload(over, 'taken', randomBytes(1000))).toMatchObject({ size: 1000 });
});

describe('replacing small objects', () => {
  const requestsFor = (key: string, on = s3.server) =>
    on.requests
      .filter((request) => request.key === key)
      .map(({ operation, status }) => `${operation} ${status}`);

  test('sends one request for a new name, and looks ahead if names are often taken', async () => {
    const over = s3.endpoint();
    await upload(over, 'again', randomBytes(1000));
    expect(requestsFor('again')).toEqual(['PutObject 200']);
    for (const _ of ['the second', 'the third']) await upload(over, 'again', randomBytes(1000));
    expect(requestsFor('again').slice(1)).toEqual([
      ...['PutObject 412', 'HeadObject 200', 'PutObject 200'],
      ...['HeadObject 200', 'PutObject 200'],
    ]);
    for (const key of ['new-1', 'new-2']) await upload(over, key, randomBytes(1000));
    expect(requestsFor('new-2')).toEqual(['PutObject 200']);
  });

  test('works on a server that rejects conditions', async () => {
    const other = await startS3Server({ refusedHeaders: /^if-(none-)?match$/ });
    onTestFinished(other.stop);
    other.createBucket('bucket');
    const over = s3.endpoint({}, other);
    for (const size of [10, 20]) {
      await upload(over, 'file', randomBytes(size));
      expect(other.object('bucket', 'file')?.body.size).toBe(size);
    }
    // Only the first request shows what the server lacks.
    expect(requestsFor('file', other)).toEqual(['PutObject 400', 'PutObject 200', 'PutObject 200']);
    await upload(s3.endpoint({}, other), 'new', randomBytes(30), { overwrite: false });
    expect(other.object('bucket', 'new')?.body.size).toBe(30);
  });

  test('goes on if a consumer takes the object meanwhile', async () => {
    const over = s3.endpoint();
    await s3.put('taken-meanwhile', Buffer.from('older'));
    s3.server.fault({ operation: 'HeadObject', kind: 'slow', delayMs: 300 });
    const uploading = upload(over, 'taken-meanwhile', Buffer.from('newer'));
    await vi.waitUntil(() => requestsFor('taken-meanwhile').includes('HeadObject null'));
    s3.server.fault({ operation: 'PutObject', kind: 'error', code: 'NoSuchKey' });
    await uploading;
    expect(await s3.get('taken-meanwhile')).toEqual(Buffer.from('newer'));
  });
});

test('checks the destination only beforehand on a server without conditional writes', async () => {
  const over = s3.endpoint();
  for (const [operation, size] of [
    ['CompleteMultipartUpload', BIG],
    ['PutObject', 1000],
  ] as const) {
    const content = randomBytes(size);
    s3.server.fault({ operation, kind: 'error', code: 'NotImplemented' });
    expect(
      await upload(over, `unconditional-${operation}`, content, { overwrite: false }),
    ).toMatchObject({ size });
    expect(content.equals(await s3.get(`unconditional-${operation}`))).toBe(true);
  }
});

test('keeps an object that appears between the check and the commit', async () => {
  const content = randomBytes(BIG);
  const over = s3.endpoint();
  const given = options(BIG, { overwrite: false });
  const file = await over.openDestination('raced', given);
  await writeFrom(file, content);
  s3.server.fault({ operation: 'CompleteMultipartUpload', kind: 'slow', delayMs: 500 });
  const committing = errorOf(file.commit(whole(content)));
  await vi.waitUntil(
    () =>
      s3
        .requestsOf('CompleteMultipartUpload')
        .some(({ key, status }) => key === 'raced' && status === null),
    30_000,
  );
  await s3.put('raced', Buffer.from('other'));
  expect(await committing).toMatchObject({ code: 'destination_exists', step: 'commit' });
  await abandon(over, file, 'raced', given);
  expect(await s3.get('raced')).toEqual(Buffer.from('other'));
});

test('memory shared between threads is read and filled', async () => {
  const content = randomBytes(BIG);
  const over = s3.endpoint();
  const file = await over.openDestination('shared', options(BIG));
  await writeFrom(file, Buffer.from(shared(content).buffer));
  await file.commit(whole(content));
  const source = await over.openSource('shared', never);
  const target = Buffer.from(new SharedArrayBuffer(BIG));
  await readAll(source, target);
  await source.close();
  expect(content.equals(target)).toBe(true);
});
