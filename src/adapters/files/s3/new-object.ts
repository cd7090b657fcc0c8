import type { S3Settings } from '../../../domain/endpoint.ts';
import { FileError, type FileStep } from '../port.ts';
import { serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/**
 * Throws `destination_exists` where an object has the key. Not every server knows `If-None-Match` of a write, above
 * all when completing an upload (Ceph 16, Swift), so that a look comes before the condition, never in place of it.
 */
export async function refuseExisting(store: Store, key: string, step: FileStep, signal: AbortSignal): Promise<void> {
  try {
    await store.head(key, signal);
  } catch (error) {
    if (serverAnswer(error) === 'NoSuchKey' || serverAnswer(error) === 'NotFound') return;
    throw error;
  }
  throw new FileError('destination_exists', step, `${key} exists and the endpoint does not overwrite`);
}

/** How a new object is to be kept. */
export function storageOf({ storage_class, sse, sse_kms_key_id }: S3Settings) {
  return {
    ...(storage_class === null ? {} : { StorageClass: storage_class as 'STANDARD' }),
    ...(sse === null ? {} : { ServerSideEncryption: sse }),
    ...(sse_kms_key_id === null ? {} : { SSEKMSKeyId: sse_kms_key_id }),
  };
}

/**
 * The error of a commit that is refused where an earlier try of it may have succeeded, and by nothing that the server shows
 * could the object be told from another's: the mover connects anew and reads it back.
 */
export function unclearCommit(key: string, cause: unknown): FileError {
  const message = `${key}: the answer to the commit was lost, and what is there is yet to be read back`;
  return new FileError('connection_failed', 'commit', message, { cause });
}
