import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { download, upload } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

const s3 = useS3Server();

describe('a request', () => {
  test('is retried on a server that is busy for a moment', async () => {
    const content = randomBytes(BIG);
    for (const operation of [
      'CreateMultipartUpload',
      'UploadPart',
      'CompleteMultipartUpload',
      'HeadObject',
      'GetObject',
    ] as const) {
      s3.server.fault({ operation, kind: 'error', code: 'SlowDown' });
    }
    const over = s3.endpoint();
    await upload(over, 'busy', content);
    expect(content.equals(await download(over, 'busy'))).toBe(true);
  });

  test('is not retried forever', async () => {
    s3.server.fault({ operation: 'UploadPart', kind: 'error', code: 'SlowDown', times: 100 });
    s3.server.fault({ operation: 'PutObject', kind: 'error', code: 'InternalError', times: 100 });
    const over = s3.endpoint();
    await expect(upload(over, 'x', randomBytes(BIG))).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('SlowDown'),
    });
    await expect(upload(over, 'x', randomBytes(5))).rejects.toMatchObject({
      code: 'connection_failed',
    });
  });

  test('is retried after its connection breaks in the middle', async () => {
    const content = randomBytes(BIG);
    const over = s3.endpoint();
    s3.server.fault({ operation: 'UploadPart', kind: 'cut', afterBytes: MiB });
    await upload(over, 'cut', content);
    s3.server.fault({ operation: 'GetObject', kind: 'cut', afterBytes: MiB });
    expect(content.equals(await download(over, 'cut'))).toBe(true);
  });

  test('is retried only a few times', async () => {
    await s3.put('cut-often', randomBytes(BIG));
    const over = s3.endpoint();
    s3.server.fault({ operation: 'UploadPart', kind: 'cut', afterBytes: MiB, times: 100 });
    s3.server.fault({ operation: 'GetObject', kind: 'cut', afterBytes: MiB, times: 100 });
    await expect(upload(over, 'x', randomBytes(BIG))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'transfer',
    });
    await expect(download(over, 'cut-often')).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'transfer',
    });
  });

  test.each([true, false])(
    'survives the loss of the answer to a commit (overwrite: %s)',
    async (overwrite) => {
      const over = s3.endpoint();
      for (const [operation, size] of [
        ['CompleteMultipartUpload', BIG],
        ['PutObject', 1000],
      ] as const) {
        const key = `lost-${operation}-${overwrite}`;
        const content = randomBytes(size);
        s3.server.fault({ operation, kind: 'lose-answer' });
        expect(await upload(over, key, content, { overwrite })).toMatchObject({ size });
        expect(content.equals(await s3.get(key))).toBe(true);
      }
    },
  );

  test('fails if the answer to a commit is lost and the owner is unknown', async () => {
    const over = s3.endpoint({ settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key' } });
    const unclear = { name: 'FileError', code: 'connection_failed', step: 'commit' };
    s3.server.fault({ operation: 'PutObject', kind: 'lose-answer' });
    await expect(
      upload(over, 'unclear-small', randomBytes(1000), { overwrite: false }),
    ).rejects.toMatchObject(unclear);
    for (const operation of ['HeadObject', 'GetObject'] as const) {
      // Before the commit, the name does not exist. The result says so.
      s3.server.fault({ operation, kind: 'slow', delayMs: 0, times: 2 });
      s3.server.fault({ operation, kind: 'error', code: 'AccessDenied' });
    }
    s3.server.fault({ operation: 'CompleteMultipartUpload', kind: 'lose-answer' });
    s3.server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error',
      code: 'PreconditionFailed',
    });
    await expect(
      upload(over, 'unclear-big', randomBytes(BIG), { overwrite: false }),
    ).rejects.toMatchObject(unclear);
  });

  test('fails for an error with a status of success', async () => {
    const content = randomBytes(BIG);
    const over = s3.endpoint();
    s3.server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error-in-success',
      code: 'InternalError',
    });
    await upload(over, 'in-success', content);
    expect(content.equals(await s3.get('in-success'))).toBe(true);
    s3.server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error-in-success',
      code: 'InternalError',
      times: 100,
    });
    await expect(upload(over, 'never', content)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    expect(s3.server.object('bucket', 'never')).toBeUndefined();
  });
});
