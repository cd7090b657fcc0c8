import { singleRequest } from '../http/destination-file.ts';
import { type DestinationFile, FileError, type OpenDestination } from '../port.ts';
import { CHUNK_SIZE } from './limits.ts';
import type { Store } from './store.ts';

/** A blob that the commit puts in one request. */
export function openSingleBlob(
  store: Store,
  name: string,
  { size, overwrite }: OpenDestination,
  signal: AbortSignal,
): Omit<DestinationFile, 'close'> {
  return singleRequest(name, { size, chunkSize: CHUNK_SIZE }, async (content, md5) => {
    const blob = overwrite ? store.blob(name) : store.blobOnce(name);
    // The service checks the MD5 and keeps it as the blob's; it answers with what it has computed.
    const { contentMD5 } = await blob.upload(content, size, {
      abortSignal: signal,
      transactionalContentMD5: md5,
      conditions: overwrite ? {} : { ifNoneMatch: '*' },
    });
    if (contentMD5 === undefined) return { size, destinationChecksum: 'none', atomicReplace: true };
    if (!md5.equals(contentMD5)) {
      throw new FileError('checksum_mismatch', 'commit', `${name}: the server holds another checksum than was sent`);
    }
    return { size, destinationChecksum: 'md5', atomicReplace: true };
  });
}
