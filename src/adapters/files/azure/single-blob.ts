import { createHash } from 'node:crypto';
import { type DestinationFile, FileError, type OpenDestination } from '../port.ts';
import { CHUNK_SIZE } from './limits.ts';
import type { Store } from './store.ts';

/** Bytes that are kept in memory until the commit puts them, in one request: before it nothing is on the server. */
export function openSingleBlob(
  store: Store,
  name: string,
  { size, overwrite }: Pick<OpenDestination, 'size' | 'overwrite'>,
  signal: AbortSignal,
): DestinationFile {
  let content = Buffer.alloc(0);
  return {
    parallelWrites: 1,
    chunkSize: CHUNK_SIZE,
    resumedFrom: 0,
    async write(_offset, data) {
      content = Buffer.from(data);
    },
    resumePoint: async () => ({ bytes: 0, state: null }),
    async commit(whole) {
      if (content.length !== whole.size || size !== whole.size) {
        throw new FileError('size_mismatch', 'commit', `${name}: ${content.length} of ${whole.size} bytes were written`);
      }
      const md5 = createHash('md5').update(content).digest();
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
    },
    async close() {},
  };
}
