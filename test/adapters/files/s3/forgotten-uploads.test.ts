import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CreateMultipartUploadCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { ResumePoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { abandon, options, upload, whole, writeFrom } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

const s3 = useS3Server();

describe('an upload that its transfer has forgotten', () => {
  const since = new Date();
  const LATER_MS = 6 * 60_000;
  const content = randomBytes(BIG);
  const cleanUp = (key: string, resume: ResumePoint | null = null) =>
    s3.endpoint().removeLeftovers(key, { transferId: newId('txr'), resume, since, signal: never });
  const later = () => vi.spyOn(Date, 'now').mockReturnValue(Date.now() + LATER_MS);
  const begin = async (Key: string) =>
    (
      await s3.client.send(
        new CreateMultipartUploadCommand({ Bucket: 'bucket', Key, ChecksumAlgorithm: 'CRC32' }),
      )
    ).UploadId as string;
  afterEach(() => vi.restoreAllMocks());

  test('is removed after the commit if the answer that named it was lost', async () => {
    s3.server.fault({ operation: 'CreateMultipartUpload', kind: 'lose-answer' });
    const proof = await upload(s3.endpoint(), 'forgotten/a', content);
    expect(proof).toMatchObject({ size: BIG, leftovers: true });
    expect(s3.server.uploads('bucket')).toHaveLength(1);
    await expect(cleanUp('forgotten/a')).rejects.toThrow('an upload without parts began');
    later();
    await cleanUp('forgotten/a');
    expect(s3.server.uploads('bucket')).toEqual([]);
  });

  test('is not reported by a commit whose upload was the only one', async () => {
    expect(await upload(s3.endpoint(), 'forgotten/b', content)).not.toHaveProperty('leftovers');
  });

  test('ends if the transfer is stopped before the answer', async () => {
    const { proxy, over } = await s3.proxied();
    const held = proxy.holdWhen(() => s3.server.uploads('bucket').length > 0, 'down');
    const stopping = new AbortController();
    const opening = over.openDestination('forgotten/c', options(BIG, { signal: stopping.signal }));
    const release = await held;
    stopping.abort();
    await expect(opening).rejects.toThrow();
    void release();
    await vi.waitFor(() => expect(s3.server.uploads('bucket')).toEqual([]));
  });

  test('is the only one to go: those with parts, of other keys, and older ones stay', async () => {
    const kept = [await begin('forgotten/d'), await begin('forgotten/d-other')];
    await s3.client.send(
      new UploadPartCommand({
        ...{ Bucket: 'bucket', Key: 'forgotten/d', UploadId: kept[0], PartNumber: 1, Body: 'part' },
      }),
    );
    const lost = await begin('forgotten/d');
    later();
    const tomorrow = new Date(Date.now() + 86_400_000);
    const leftovers = { transferId: newId('txr'), resume: null, signal: never };
    await s3.endpoint().removeLeftovers('forgotten/d', { ...leftovers, since: tomorrow });
    await s3.endpoint().removeLeftovers('forgotten/d', leftovers);
    expect(s3.server.uploads('bucket')).toEqual([...kept, lost]);
    await cleanUp('forgotten/d');
    expect(s3.server.uploads('bucket')).toEqual(kept);
    for (const upload_id of kept)
      await cleanUp(upload_id === kept[0] ? 'forgotten/d' : 'forgotten/d-other', {
        bytes: 0,
        state: { upload_id },
      });
  });

  test('does no harm if the server refuses to list uploads', async () => {
    const lost = await begin('forgotten/e');
    const denied = {
      kind: 'error',
      code: 'AccessDenied',
      times: Number.POSITIVE_INFINITY,
    } as const;
    s3.server.fault({ operation: 'ListMultipartUploads', ...denied });
    later();
    await cleanUp('forgotten/e');
    expect(s3.server.uploads('bucket')).toEqual([lost]);
    s3.server.clearFaults();
    await cleanUp('forgotten/e');
    expect(s3.server.uploads('bucket')).toEqual([]);
  });

  test('stays if the object under its key has its data', async () => {
    const over = s3.endpoint();
    const given = options(BIG);
    const file = await over.openDestination('forgotten/f', given);
    await writeFrom(file, content);
    const resume = await file.resumePoint(BIG);
    s3.server.fault({ operation: 'CompleteMultipartUpload', kind: 'keep-upload' });
    s3.server.fault({
      ...{ operation: 'CompleteMultipartUpload', kind: 'error', code: 'InternalError' },
      times: 2,
    });
    expect(await file.commit(whole(content))).toMatchObject({ size: BIG });
    await file.close();
    expect(s3.server.uploads('bucket')).toHaveLength(1);
    later();
    await cleanUp('forgotten/f', resume);
    expect(content.equals(await s3.get('forgotten/f'))).toBe(true);

    await s3.put('forgotten/f', Buffer.from('newer'));
    await cleanUp('forgotten/f', resume);
    expect(s3.server.uploads('bucket')).toEqual([]);
    expect(String(await s3.get('forgotten/f'))).toBe('newer');
  });
});

describe('an upload whose object was there before, with the same content', () => {
  test('is removed', async () => {
    const content = randomBytes(BIG);
    await upload(s3.endpoint(), 'same', content);
    // The times of objects are whole seconds.
    await sleep(1_100);
    const given = options(BIG);
    const file = await s3.endpoint().openDestination('same', given);
    await writeFrom(file, content);
    const resume = await file.resumePoint(BIG);
    await file.close();
    await s3.endpoint().removeLeftovers('same', { ...given, resume });
    expect(s3.server.uploads('bucket')).toEqual([]);
  });

  test('does not count as that object if the server fails to complete it', async () => {
    const content = randomBytes(BIG);
    const over = s3.endpoint();
    await upload(over, 'same-again', content);
    await sleep(1_100);
    const given = options(BIG);
    const file = await over.openDestination('same-again', given);
    await writeFrom(file, content);
    s3.server.fault({
      ...{ operation: 'CompleteMultipartUpload', kind: 'error', code: 'InternalError' },
      times: 100,
    });
    await expect(file.commit(whole(content))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    expect(s3.server.uploads('bucket')).toHaveLength(1);
    await abandon(over, file, 'same-again', given);
    expect(s3.server.uploads('bucket')).toEqual([]);
  });
});
