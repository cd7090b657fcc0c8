import { singleRequest, type UploadedFile } from '../http/destination-file.ts';
import { FileError, type OpenDestination } from '../port.ts';
import { CHUNK_SIZE } from './limits.ts';
import { attributesOf, type Store } from './store.ts';

/** Opens a blob that the commit stores in one request. */
export function openSingleBlob(
  store: Store,
  name: string,
  options: OpenDestination,
  signal: AbortSignal,
): UploadedFile {
  const { size, overwrite } = options;
  return singleRequest(name, { size, chunkSize: CHUNK_SIZE }, async (content, md5) => {
    const blob = overwrite ? store.blob(name) : store.blobOnce(name);
    // The service checks the MD5, stores it with the blob, and answers with the MD5 that it
    // computed.
    const upload = (abortSignal: AbortSignal) =>
      blob.upload(content, size, {
        abortSignal,
        transactionalContentMD5: md5,
        ...attributesOf(options),
        conditions: overwrite ? {} : { ifNoneMatch: '*' },
      });
    const { contentMD5, etag: version } = await store.counted(options, size, signal, upload);
    const proof = { size, atomicReplace: true, version } as const;
    if (contentMD5 === undefined) return { ...proof, destinationChecksum: 'none' };
    if (!md5.equals(contentMD5)) {
      throw new FileError(
        'checksum_mismatch',
        'commit',
        `${name}: the server's checksum differs from that of the data sent`,
      );
    }
    return { ...proof, destinationChecksum: 'md5' };
  });
}
