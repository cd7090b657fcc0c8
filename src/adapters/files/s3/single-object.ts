import { PutObjectCommand } from '@aws-sdk/client-s3';
import { singleRequest } from '../http/destination-file.ts';
import { type DestinationFile, FileError, type OpenDestination } from '../port.ts';
import { serverAnswer, wasRepeated } from './errors.ts';
import { CHUNK_SIZE } from './limits.ts';
import { refuseExisting, storageOf } from './new-object.ts';
import type { Store } from './store.ts';

/** An object that the commit puts in one request. */
export function openSingleObject(
  store: Store,
  key: string,
  { size, overwrite }: OpenDestination,
  signal: AbortSignal,
): Omit<DestinationFile, 'close'> {
  /** Whether the object is what was sent: the answer to a try before may have been lost. */
  async function isOurs(md5: Buffer): Promise<boolean> {
    const { ETag } = await store.head(key, signal);
    return ETag === etagOf(md5);
  }

  async function put(content: Buffer, md5: Buffer): Promise<string | undefined> {
    const { bucket: Bucket } = store.settings;
    const input = { Bucket, Key: key, Body: content, ContentMD5: md5.toString('base64'), ...storageOf(store.settings) };
    try {
      const condition = overwrite ? {} : { IfNoneMatch: '*' };
      const { ETag } = await store.s3.send(new PutObjectCommand({ ...input, ...condition }), { abortSignal: signal });
      return ETag;
    } catch (error) {
      if (serverAnswer(error) === 'PreconditionFailed' && wasRepeated(error) && (await isOurs(md5))) return etagOf(md5);
      throw error;
    }
  }

  return singleRequest(key, { size, chunkSize: CHUNK_SIZE }, async (content, md5) => {
    if (!overwrite) await refuseExisting(store, key, 'commit', signal);
    // The server has checked the MD5. As an ETag it proves the size too; under a key of KMS the ETag is something else.
    if ((await put(content, md5)) === etagOf(md5)) return { size, destinationChecksum: 'md5', atomicReplace: true };
    const { ContentLength = 0 } = await store.head(key, signal);
    if (ContentLength !== size) {
      throw new FileError('size_mismatch', 'commit', `${key}: the server holds ${ContentLength} bytes, sent were ${size}`);
    }
    return { size: ContentLength, destinationChecksum: 'md5', atomicReplace: true };
  });
}

function etagOf(md5: Buffer): string {
  return `"${md5.toString('hex')}"`;
}
