import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { CreateMultipartUploadCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import { describe, expect, test, vi } from 'vitest';
import type { DestinationFile, FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { abandon, options, upload, whole, writeFrom } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

// A page of S3 has 1,000 entries: as many would take seconds of CPU time.
const s3 = useS3Server({ pageSize: 20 });

describe('resuming', () => {
  const chunk = 8 * MiB;
  const content = randomBytes(3 * chunk + 1);

  async function interrupted(
    key: string,
  ): Promise<{ file: DestinationFile; transferId: string; over: FileEndpoint }> {
    const over = s3.endpoint();
    const transferId = newId('txr');
    const file = await over.openDestination(key, options(content.length, { transferId }));
    for (let at = 0; at < 3 * chunk; at += chunk)
      await file.write(at, content.subarray(at, at + chunk));
    return { file, transferId, over };
  }

  async function finish(key: string, file: DestinationFile): Promise<void> {
    await writeFrom(file, content);
    await file.commit(whole(content));
    await file.close();
    expect(content.equals(await s3.get(key))).toBe(true);
    expect(s3.server.uploads('bucket')).toEqual([]);
  }

  test('stops at a part that has changed', async () => {
    const { file, transferId, over } = await interrupted('another-part');
    const resume = await file.resumePoint(3 * chunk);
    await file.close();
    const { upload_id: UploadId } = resume.state as { upload_id: string };
    const part = {
      Bucket: 'bucket',
      Key: 'another-part',
      UploadId,
      PartNumber: 2,
      Body: randomBytes(chunk),
      ChecksumAlgorithm: 'CRC32' as const,
    };
    await s3.client.send(new UploadPartCommand(part));
    const successor = await over.openDestination(
      'another-part',
      options(content.length, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(chunk);
    await finish('another-part', successor);
  });

  test('stops at a part that is missing', async () => {
    const over = s3.endpoint();
    const transferId = newId('txr');
    const file = await over.openDestination(
      'missing-part',
      options(content.length, { transferId }),
    );
    for (const at of [0, 2 * chunk]) await file.write(at, content.subarray(at, at + chunk));
    const honest = await file.resumePoint(3 * chunk);
    expect(honest.bytes).toBe(chunk);
    await file.close();
    const digests = Buffer.alloc(12);
    for (const at of [0, 1, 2])
      digests.writeUInt32BE(crc32(content.subarray(at * chunk, (at + 1) * chunk)), at * 4);
    const resume = {
      bytes: 3 * chunk,
      state: { ...(honest.state as object), digests: digests.toString('base64') },
    };
    const successor = await over.openDestination(
      'missing-part',
      options(content.length, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(chunk);
    await finish('missing-part', successor);
  });

  test('finds the parts of more than one page', async () => {
    const size = 110_000;
    const over = s3.endpoint({ partLimits: { chunkSize: 1_000, maxParts: 10_000 } });
    const transferId = newId('txr');
    const file = await over.openDestination('paged', options(size, { transferId }));
    for (let part = 0; part < 105; part++) await file.write(part * 1_000, randomBytes(1_000));
    const resume = await file.resumePoint(105_000);
    await file.close();
    const successor = await over.openDestination('paged', options(size, { transferId, resume }));
    expect(successor.resumedFrom).toBe(105_000);
    await abandon(over, successor, 'paged', options(size, { transferId }));
  });

  test('starts over when the source has changed, and ends the old upload', async () => {
    const { file, transferId, over } = await interrupted('begun-twice');
    await file.close();
    const second = await over.openDestination(
      'begun-twice',
      options(content.length, { transferId }),
    );
    expect(second.resumedFrom).toBe(0);
    expect(s3.server.uploads('bucket')).toHaveLength(1);
    await finish('begun-twice', second);
  });

  test('works in another process, whose clean-up leaves the uploads of others alone', async () => {
    const { file, transferId } = await interrupted('elsewhere');
    const resume = await file.resumePoint(2 * chunk);
    await file.close();
    const { UploadId } = await s3.client.send(
      new CreateMultipartUploadCommand({ Bucket: 'bucket', Key: 'elsewhere' }),
    );
    const other = s3.endpoint();
    await other.removeLeftovers('elsewhere', { transferId, resume, signal: never });
    await other.removeLeftovers('elsewhere', { transferId, resume, signal: never });
    expect(s3.server.uploads('bucket')).toEqual([UploadId]);
    await other.removeLeftovers('elsewhere', {
      transferId,
      resume: { bytes: 0, state: { upload_id: UploadId } },
      signal: never,
    });
  });
});

describe('parts larger than a chunk', () => {
  const limits = { chunkSize: 2 * MiB, maxParts: 4 };
  const content = randomBytes(BIG);
  const part = 6 * MiB;

  test('are sent while their chunks arrive', async () => {
    const over = s3.endpoint({ partLimits: limits });
    const file = await over.openDestination('streamed', options(BIG));
    expect(file).toMatchObject({ chunkSize: 2 * MiB, parallelWrites: 1 });
    await writeFrom(file, content);
    expect(await file.commit(whole(content))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
      atomicReplace: true,
    });
    await file.close();
    expect(content.equals(await s3.get('streamed'))).toBe(true);
  });

  test('count only when they are answered, and uploads resume from there', async () => {
    const over = s3.endpoint({ partLimits: limits });
    const transferId = newId('txr');
    const file = await over.openDestination('streamed-on', options(BIG, { transferId }));
    for (let at = 0; at < part + 4 * MiB; at += 2 * MiB)
      await file.write(at, content.subarray(at, at + 2 * MiB));
    await file.close();
    const resume = await file.resumePoint(part + 4 * MiB);
    expect(resume.bytes).toBe(part);
    const successor = await over.openDestination(
      'streamed-on',
      options(BIG, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(part);
    await writeFrom(successor, content);
    await successor.commit(whole(content));
    await successor.close();
    expect(content.equals(await s3.get('streamed-on'))).toBe(true);
  });

  test('wait longer for their source than for a server that takes no more', async () => {
    const { proxy, over } = await s3.proxied({ partLimits: limits, timeouts: { stallMs: 1_000 } });
    const given = options(BIG);
    const file = await over.openDestination('slow-chunks', given);
    const write = (at: number) => file.write(at, content.subarray(at, at + 2 * MiB));
    for (const at of [0, 2 * MiB, 4 * MiB, 6 * MiB]) {
      await write(at);
      await sleep(1_500);
    }
    proxy.stall(true);
    const rest = write(8 * MiB).then(() => write(10 * MiB));
    await expect(rest).rejects.toMatchObject({ code: 'stalled', step: 'transfer' });
    await file.close();
    proxy.stall(false);
    await over.removeLeftovers('slow-chunks', { ...given, resume: null });
  });

  test('fail if the connection breaks while the source is slow', async () => {
    const { proxy, over } = await s3.proxied({ partLimits: limits });
    const given = options(BIG);
    const file = await over.openDestination('slow-source', given);
    const write = (at: number) => file.write(at, content.subarray(at, at + 2 * MiB));
    const before = proxy.forwarded.up;
    await write(0);
    await vi.waitUntil(() => proxy.forwarded.up - before > 2 * MiB, 30_000);
    proxy.cut();
    await vi.waitUntil(async () => (await over.connections()) === 0, 30_000);
    const rest = write(2 * MiB).then(() => write(4 * MiB));
    await expect(rest).rejects.toMatchObject({
      name: 'FileError',
      code: 'connection_failed',
      step: 'transfer',
    });
    await abandon(over, file, 'slow-source', given);
  });

  test.each([
    { operation: 'UploadPart', kind: 'cut', afterBytes: 3 * MiB, code: 'connection_failed' },
    { operation: 'UploadPart', kind: 'error', error: 'SlowDown', code: 'timeout' },
  ] as const)('fail when the server fails: $kind', async (fault) => {
    s3.server.fault(
      fault.kind === 'cut'
        ? { operation: 'UploadPart', kind: 'cut', afterBytes: fault.afterBytes }
        : { operation: 'UploadPart', kind: 'error', code: fault.error },
    );
    await expect(upload(s3.endpoint({ partLimits: limits }), 'x', content)).rejects.toMatchObject({
      name: 'FileError',
      code: fault.code,
    });
  });
});
