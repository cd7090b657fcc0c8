import { createHash, randomBytes } from 'node:crypto';
import {
  BlobServiceClient,
  ContainerClient,
  type StoragePipelineOptions,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Azurite, shareAzurite, whyNoAzurite } from './azurite.ts';

const why = await whyNoAzurite();

const once: StoragePipelineOptions = { retryOptions: { maxTries: 1 } };
describe.skipIf(why)(`Azurite${why ? ` (skipped: ${why})` : ''}`, () => {
  let azurite: Azurite;

  beforeAll(async () => {
    azurite = await shareAzurite();
    await azurite.createContainer('container');
  });

  afterAll(() => azurite?.stop());

  function connect(accountKey = azurite.accountKey): ContainerClient {
    const credential = new StorageSharedKeyCredential(azurite.account, accountKey);
    return new BlobServiceClient(azurite.endpointUrl, credential, once).getContainerClient(
      'container',
    );
  }

  test('stores a blob of blocks', async () => {
    const blob = connect().getBlockBlobClient('folder/a blob with ä');
    await blob.stageBlock('MDE=', 'con', 3);
    await blob.stageBlock('MDI=', 'tent', 4);
    await blob.commitBlockList(['MDE=', 'MDI=']);
    expect(String(await blob.downloadToBuffer())).toBe('content');
  });

  test('rejects another key, a wrong MD5 and a failed precondition', async () => {
    const other = connect(randomBytes(64).toString('base64')).getBlockBlobClient('other');
    await expect(other.upload('content', 7)).rejects.toMatchObject({ statusCode: 403 });
    const blob = connect().getBlockBlobClient('blob');
    const transactionalContentMD5 = createHash('md5').update('other').digest();
    await expect(
      blob.stageBlock('MDE=', 'content', 7, { transactionalContentMD5 }),
    ).rejects.toMatchObject({ code: 'Md5Mismatch' });
    await expect(
      blob.stageBlock('MDE=', 'content', 7, { transactionalContentCrc64: Buffer.alloc(8) }),
    ).rejects.toMatchObject({
      code: 'Crc64Mismatch',
    });
    await blob.upload('content', 7);
    await expect(
      blob.upload('content', 7, { conditions: { ifNoneMatch: '*' } }),
    ).rejects.toMatchObject({ code: 'BlobAlreadyExists' });
  });

  test('limits a SAS to its permissions', async () => {
    await connect().getBlockBlobClient('shared').upload('content', 7);
    const token = await azurite.sasToken('container', 'r');
    const blob = new ContainerClient(
      `${azurite.endpointUrl}/container?${token}`,
      undefined,
      once,
    ).getBlockBlobClient('shared');
    expect(String(await blob.downloadToBuffer())).toBe('content');
    await expect(blob.upload('other', 5)).rejects.toMatchObject({ statusCode: 403 });
  });
});
