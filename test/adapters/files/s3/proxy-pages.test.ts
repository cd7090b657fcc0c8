import { randomBytes } from 'node:crypto';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, test } from 'vitest';
import { newId } from '../../../../src/domain/ids.ts';
import { upload } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const BIG = (20 << 20) + 5;

const s3 = useS3Server();

async function get(Key: string): Promise<Buffer> {
  const { Body } = await s3.client.send(new GetObjectCommand({ Bucket: 'bucket', Key }));
  return Buffer.from((await Body?.transformToByteArray()) as Uint8Array);
}

describe('a page of a proxy with status 200', () => {
  test.each([
    ['PutObject', 1000, true],
    ['PutObject', 1000, false],
    ['CreateMultipartUpload', BIG, true],
    ['UploadPart', BIG, true],
    ['CompleteMultipartUpload', BIG, true],
    ['CompleteMultipartUpload', BIG, false],
  ] as const)(
    'in place of the answer to a %s fails the upload of %i bytes with overwrite %s',
    async (operation, size, overwrite) => {
      const key = `page-${operation}-${overwrite}`;
      const content = randomBytes(size);
      s3.server.fault({ operation, kind: 'page' });
      await expect(upload(s3.endpoint(), key, content, { overwrite })).rejects.toMatchObject({
        code: 'connection_failed',
        message: expect.stringContaining('a proxy'),
      });
      expect(s3.server.object('bucket', key)).toBeUndefined();
      await upload(s3.endpoint(), key, content, { overwrite });
      expect(content.equals(await get(key))).toBe(true);
      expect(s3.server.uploads('bucket')).toEqual([]);
    },
  );

  test('in place of the answer to a PutObject does not count if an older object is as long', async () => {
    const [older, content] = [randomBytes(1_000), randomBytes(1_000)];
    await upload(s3.endpoint(), 'page-older', older);
    s3.server.fault({ operation: 'PutObject', kind: 'page' });
    await expect(upload(s3.endpoint(), 'page-older', content)).rejects.toMatchObject({
      code: 'connection_failed',
      message: expect.stringContaining('a proxy'),
    });
    expect(older.equals(await get('page-older'))).toBe(true);
    await upload(s3.endpoint(), 'page-older', content);
    expect(content.equals(await get('page-older'))).toBe(true);
  });

  test('in place of the answer to a look is no object under the key', async () => {
    s3.server.fault({ operation: 'HeadObject', kind: 'page' });
    const kept = upload(s3.endpoint(), 'page-look', Buffer.from('content'), { overwrite: false });
    await expect(kept).rejects.toMatchObject({ code: 'connection_failed' });
  });

  test('in place of the answer to a copy keeps the source', async () => {
    const over = s3.endpoint();
    await upload(over, 'page/source', Buffer.from('content'));
    const { identity, close } = await over.openSource('page/source', never);
    await close();
    const moving = { transferId: newId('txr'), identity, moveTo: 'page/done/', signal: never };
    s3.server.fault({ operation: 'CopyObject', kind: 'page' });
    await expect(over.dispose('page/source', moving)).rejects.toMatchObject({
      code: 'connection_failed',
    });
    expect(String(await get('page/source'))).toBe('content');
    expect(await over.dispose('page/source', moving)).toMatchObject({ outcome: 'moved' });
    expect(String(await get('page/done/source'))).toBe('content');
  });
});
