import { randomBytes } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { abandon, download, options, upload, whole } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

const s3 = useS3Server();

/** Memory in the form that a mover passes. */
function shared(content: Buffer): Uint8Array {
  const bytes = new Uint8Array(new SharedArrayBuffer(content.length));
  bytes.set(content);
  return bytes;
}

describe('checksums', () => {
  test.each([['a part', BIG] as const, ['a small file', MiB] as const])(
    'reject %s that changes on its way',
    async (_name, size) => {
      const content = randomBytes(size);
      const over = s3.endpoint();
      const given = options(size);
      const file = await over.openDestination('corrupt', given);
      if (size === BIG) {
        const chunk = shared(content.subarray(0, 8 * MiB));
        const writing = file.write(0, chunk);
        chunk[5]! ^= 1;
        await expect(writing).rejects.toMatchObject({ code: 'checksum_mismatch' });
      } else {
        s3.server.fault({ operation: 'PutObject', kind: 'error', code: 'BadDigest' });
        await file.write(0, content);
        await expect(file.commit(whole(content))).rejects.toMatchObject({
          code: 'checksum_mismatch',
          step: 'commit',
        });
      }
      await abandon(over, file, 'corrupt', given);
      expect(s3.server.object('bucket', 'corrupt')).toBeUndefined();
    },
  );

  test('are named in the result', async () => {
    const over = s3.endpoint();
    expect(await upload(over, 'small', randomBytes(1000))).toMatchObject({
      size: 1000,
      destinationChecksum: 'md5',
      atomicReplace: true,
    });
    expect(await upload(over, 'big', randomBytes(BIG))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
      atomicReplace: true,
    });
  });

  test('in the answer to the completion need no further look', async () => {
    await upload(s3.endpoint(), 'completed', randomBytes(BIG));
    expect(s3.requestsOf('HeadObject').filter(({ key }) => key === 'completed')).toEqual([]);
    expect(s3.requestsOf('UploadPart').filter(({ key }) => key === 'completed')).toHaveLength(3);
  });

  test('work under a KMS key, whose ETag is not an MD5', async () => {
    const over = s3.endpoint({
      settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key', storage_class: 'STANDARD_IA' },
    });
    expect(await upload(over, 'kms-small', randomBytes(1000))).toMatchObject({
      size: 1000,
      destinationChecksum: 'md5',
    });
    expect(await upload(over, 'kms-big', randomBytes(BIG))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
    });
    for (const key of ['kms-small', 'kms-big']) {
      expect(s3.server.object('bucket', key)?.headers).toMatchObject({
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'a-key',
        'x-amz-storage-class': 'STANDARD_IA',
      });
    }
  });

  test('are signed too when plain text goes to another host', async () => {
    // Another name of this host.
    const url = s3.server.endpointUrl.replace('127.0.0.1', '0.0.0.0');
    const hashOf = (key: string) =>
      s3.requestsOf('PutObject').find((request) => request.key === key)?.headers[
        'x-amz-content-sha256'
      ];
    await upload(s3.endpoint({ settings: { endpoint_url: url } }), 'signed', Buffer.from('signed'));
    await upload(s3.endpoint(), 'unsigned', Buffer.from('unsigned'));
    expect(hashOf('signed')).toBe(whole(Buffer.from('signed')).sha256);
    expect(hashOf('unsigned')).toBe('UNSIGNED-PAYLOAD');
  });
});

test('moves files of any size on a server that rejects the headers of checksums', async () => {
  const other = await startS3Server({ refusedHeaders: /^x-amz-(sdk-)?checksum/ });
  onTestFinished(other.stop);
  other.createBucket('bucket');
  const over = s3.endpoint({ partLimits: { chunkSize: 5 * MiB, maxParts: 2 } }, other);
  for (const size of [1000, 10 * MiB, 15 * MiB]) {
    const content = randomBytes(size);
    expect(await upload(over, `file-${size}`, content)).toMatchObject({
      size,
      destinationChecksum: 'md5',
    });
    expect(content.equals(await download(over, `file-${size}`))).toBe(true);
  }
  expect(other.uploads('bucket')).toEqual([]);
});

test.each([
  ['CRC-32', {}],
  ['MD5', { refusedHeaders: /checksum/ }],
])('moves files to a server that has the %s of the whole object only', async (_name, given) => {
  const other = await startS3Server({ ...given, wholeChecksums: true });
  onTestFinished(other.stop);
  other.createBucket('bucket');
  const over = s3.endpoint({}, other);
  const content = randomBytes(BIG);
  for (const overwrite of [false, true]) {
    const { size } = await upload(over, 'whole', content, { overwrite });
    expect(size).toBe(BIG);
    expect(content.equals(await download(over, 'whole'))).toBe(true);
  }
});
