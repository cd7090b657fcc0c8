import { randomBytes } from 'node:crypto';
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { type S3Server, startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { upload } from '../contract.ts';
import { clientOn, endpointOn } from './endpoint-on.ts';

const never = new AbortController().signal;
const BIG = (20 << 20) + 5;

let server: S3Server;
let client: S3Client;
const open: FileEndpoint[] = [];

beforeAll(async () => {
  server = await startS3Server();
  server.createBucket('bucket');
  client = clientOn(server);
});
afterEach(async () => {
  server.clearFaults();
  for (const each of open.splice(0)) await each.close();
});
afterAll(async () => {
  client?.destroy();
  await server?.stop();
});

function endpoint(): FileEndpoint {
  const made = endpointOn(server);
  open.push(made);
  return made;
}

async function get(Key: string): Promise<Buffer> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bucket', Key }));
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
      server.fault({ operation, kind: 'page' });
      await expect(upload(endpoint(), key, content, { overwrite })).rejects.toMatchObject({
        code: 'connection_failed',
        message: expect.stringContaining('a proxy'),
      });
      expect(server.object('bucket', key)).toBeUndefined();
      await upload(endpoint(), key, content, { overwrite });
      expect(content.equals(await get(key))).toBe(true);
      expect(server.uploads('bucket')).toEqual([]);
    },
  );

  test('in place of the answer to a look is no object under the key', async () => {
    server.fault({ operation: 'HeadObject', kind: 'page' });
    const kept = upload(endpoint(), 'page-look', Buffer.from('content'), { overwrite: false });
    await expect(kept).rejects.toMatchObject({ code: 'connection_failed' });
  });

  test('in place of the answer to a copy keeps the source', async () => {
    const over = endpoint();
    await upload(over, 'page/source', Buffer.from('content'));
    const { identity, close } = await over.openSource('page/source', never);
    await close();
    const moving = { transferId: newId('txr'), identity, moveTo: 'page/done/', signal: never };
    server.fault({ operation: 'CopyObject', kind: 'page' });
    await expect(over.dispose('page/source', moving)).rejects.toMatchObject({
      code: 'connection_failed',
    });
    expect(String(await get('page/source'))).toBe('content');
    expect(await over.dispose('page/source', moving)).toMatchObject({ outcome: 'moved' });
    expect(String(await get('page/done/source'))).toBe('content');
  });
});
