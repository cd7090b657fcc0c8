import { setTimeout as sleep } from 'node:timers/promises';
import type { BlobGetPropertiesResponse } from '@azure/storage-blob';
import { type DisposeProgress, unclear } from '../dispose.ts';
import { type DisposeRequests, disposeByCopy } from '../http/dispose-by-copy.ts';
import { type Disposed, type DisposeOptions, FileError } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import { describe } from './source.ts';
import type { Store } from './store.ts';

/** How often to ask for the state of a copy that the service makes in the background. */
const COPY_POLL_MS = 1_000;
/** The metadata key that names the transfer whose move made a copy. */
const MOVED_BY = 'waybill_transfer';

/**
 * Deletes or moves a blob, if it is still the one that was copied. A move is a copy on the server
 * and then a delete. Both have the ETag as their condition.
 */
export function dispose(store: Store, name: string, options: DisposeOptions): Promise<Disposed> {
  const { signal } = options;
  const requests: DisposeRequests<BlobGetPropertiesResponse> = {
    find: (blob) => find(store, blob, signal),
    identityOf: (found) => describe(name, found).identity,
    // It has another ETag than its source.
    isCopy: () => false,
    sizeOf: (blob) => (isCopied(blob) ? blob.contentLength : undefined),
    copyTo: (target, source) => copyTo(store, name, target, source, options),
    remove: (progress) => remove(store, name, options, progress),
    fileError: (error) =>
      error instanceof FileError ? error : fileError(error, 'commit', name, 'source'),
  };
  return disposeByCopy(requests, name, options);
}

/** Returns null if there is no blob. */
async function find(
  store: Store,
  name: string,
  signal: AbortSignal,
): Promise<BlobGetPropertiesResponse | null> {
  try {
    return await store.properties(name, signal);
  } catch (error) {
    if (serverAnswer(error) === 'BlobNotFound') return null;
    throw error;
  }
}

/** Deletes the blob. Returns what has its name, if that is not the blob that was copied. */
async function remove(
  store: Store,
  name: string,
  { identity, signal }: DisposeOptions,
  progress: DisposeProgress,
): Promise<Extract<Disposed, { outcome: 'changed' }> | null> {
  progress.begun = true;
  try {
    const conditions = { ifMatch: identity.version as string };
    await store.blob(name).delete({ abortSignal: signal, conditions });
    return null;
  } catch (error) {
    if (!/^(ConditionNotMet|BlobNotFound)$/.test(serverAnswer(error) ?? '')) throw error;
    const there = await find(store, name, signal);
    if (there === null) throw unclear(name);
    return { outcome: 'changed', found: describe(name, there).identity };
  }
}

/**
 * Copies a blob on the server, unless the name is taken. An interrupted call may have copied it: a
 * blob of the same size and MD5 has the same content. A copy without MD5 names the transfer in its
 * metadata. The service cannot add to the metadata of the source, so all of it is sent.
 *
 * Waits for a copy of the source that an interrupted call has left pending. It has no bytes until
 * it ends, and would keep the name if the source were moved to another one. A copy that failed has
 * none either, so it is replaced.
 */
async function copyTo(
  store: Store,
  name: string,
  target: string,
  source: BlobGetPropertiesResponse,
  { identity, transferId, signal }: DisposeOptions,
): Promise<'copied' | 'taken'> {
  const { url } = store.blob(name);
  const isOurs = (blob: BlobGetPropertiesResponse | null) =>
    blob?.copySource !== undefined && withoutQuery(blob.copySource) === withoutQuery(url);
  // The SDK's own wait takes no signal, and never ends for a copy that was aborted.
  const ended = async () => {
    let there = await find(store, target, signal);
    while (there?.copyStatus === 'pending' && isOurs(there)) {
      await sleep(COPY_POLL_MS, undefined, { signal });
      there = await find(store, target, signal);
    }
    return there;
  };
  const there = await ended();
  if (there !== null && isCopyOf(source, there, transferId)) return 'copied';
  const failed = isCopied(there) || !isOurs(there) ? null : there;
  if (there !== null && failed === null) return 'taken';
  const mark = { metadata: { ...source.metadata, [MOVED_BY]: transferId } };
  try {
    const poller = await store.blobOnce(target).beginCopyFromURL(url, {
      abortSignal: signal,
      ...(source.contentMD5 === undefined && mark),
      conditions: failed?.etag === undefined ? { ifNoneMatch: '*' } : { ifMatch: failed.etag },
      sourceConditions: { ifMatch: identity.version as string },
    });
    if (poller.getResult()?.copyStatus === 'success') return 'copied';
    const made = await ended();
    if (made !== null && !isOurs(made)) return 'taken';
    if (made !== null && isCopied(made)) return 'copied';
    throw new FileError('connection_failed', 'commit', `${target}: ${fateOf(made)}`);
  } catch (error) {
    if (!/^(BlobAlreadyExists|ConditionNotMet)$/.test(serverAnswer(error) ?? '')) throw error;
    if ((await find(store, target, signal)) === null) throw error;
    return 'taken';
  }
}

/** Returns false for a copy that is pending, failed or was aborted. Other blobs have no status. */
function isCopied(blob: BlobGetPropertiesResponse | null): boolean {
  return (blob?.copyStatus ?? 'success') === 'success';
}

/** Says what became of a copy that has no content. */
function fateOf(copy: BlobGetPropertiesResponse | null): string {
  if (copy === null) return 'something else removed the copy before it was complete';
  const { copyStatus, copyStatusDescription: why } = copy;
  const fate = copyStatus === 'aborted' ? 'the copy was aborted' : 'the copy was not completed';
  return why ? `${fate}: ${why}` : fate;
}

/** The query of a URL may be a SAS. */
function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

function isCopyOf(
  source: BlobGetPropertiesResponse,
  blob: BlobGetPropertiesResponse,
  transferId: string,
): boolean {
  const { contentLength, contentMD5, metadata } = blob;
  if (!isCopied(blob) || contentLength !== source.contentLength) return false;
  if (source.contentMD5 === undefined) return metadata?.[MOVED_BY] === transferId;
  return contentMD5 !== undefined && Buffer.from(contentMD5).equals(source.contentMD5);
}
