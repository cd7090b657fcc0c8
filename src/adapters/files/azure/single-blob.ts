import { singleRequest, type UploadedFile } from '../http/destination-file.ts';
import { beginReplace, type Replaceable } from '../http/replace.ts';
import { type CommitProof, FileError, type OpenDestination } from '../port.ts';
import { isForbidden, serverAnswer } from './errors.ts';
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
  const blob = overwrite ? store.blob(name) : store.blobOnce(name);
  const counted = store.counted(options, size, signal);

  async function put(content: Buffer, md5: Buffer, version: Replaceable): Promise<CommitProof> {
    // The service checks the MD5, stores it with the blob, and answers with the MD5 that it
    // computed.
    const { contentMD5, etag } = await counted((abortSignal) =>
      blob.upload(content, size, {
        abortSignal,
        transactionalContentMD5: md5,
        ...attributesOf(options),
        conditions: conditionOf(version),
      }),
    );
    const proof = { size, atomicReplace: true, version: etag } as const;
    if (contentMD5 === undefined) return { ...proof, destinationChecksum: 'none' };
    if (!md5.equals(contentMD5)) {
      throw new FileError(
        'checksum_mismatch',
        'commit',
        `${name}: the server's checksum differs from that of the data sent`,
      );
    }
    return { ...proof, destinationChecksum: 'md5' };
  }

  async function look(): Promise<Replaceable> {
    try {
      return (await store.properties(name, signal)).etag;
    } catch (error) {
      if (serverAnswer(error) === 'BlobNotFound') return null;
      // A SAS may permit writing only.
      if (isForbidden(error)) return undefined;
      throw error;
    }
  }

  const isUnmet = (error: unknown) =>
    /^(BlobAlreadyExists|ConditionNotMet)$/.test(serverAnswer(error) ?? '');
  return singleRequest(
    name,
    { size, chunkSize: CHUNK_SIZE },
    beginReplace(name, { overwrite, last: store.lastName }, { put, isUnmet, look }),
  );
}

function conditionOf(version: Replaceable) {
  if (version === undefined) return {};
  return version === null ? { ifNoneMatch: '*' } : { ifMatch: version };
}
