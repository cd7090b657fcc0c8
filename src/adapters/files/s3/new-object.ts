import type { S3Settings } from '../../../domain/protocols/s3.ts';
import { type ContentHeaders, FileError, type FileStep, type OpenDestination } from '../port.ts';
import { isMissing, isRefused } from './errors.ts';
import type { ObjectAnswer } from './first-try.ts';
import { metadataOf } from './metadata.ts';
import type { Store } from './store.ts';

/** What a new object has beside its content, as the SDK names it. */
export type Attributes = ReturnType<typeof attributesOf>;

/**
 * Throws `destination_exists` if an object has the key. Some servers lack `If-None-Match` on a
 * write, mainly when an upload is completed (Ceph 16, Swift). So this look-up runs before each
 * conditional write; it does not replace the condition.
 */
export async function refuseExisting(
  store: Store,
  key: string,
  step: FileStep,
  signal: AbortSignal,
): Promise<void> {
  try {
    await store.head(key, signal);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  throw new FileError(
    'destination_exists',
    step,
    `${key} exists and the endpoint does not overwrite`,
  );
}

/**
 * Returns what the server reports of an object whose commit it has acknowledged. Null if a consumer
 * has taken it already, or if the user may not read.
 */
export async function foundObject(looking: Promise<ObjectAnswer>): Promise<ObjectAnswer | null> {
  try {
    return await looking;
  } catch (error) {
    if (isMissing(error) || isRefused(error)) return null;
    throw error;
  }
}

/** Returns how S3 must store a new object: its storage class and encryption. */
export function storageOf({ storage_class, sse, sse_kms_key_id }: S3Settings) {
  return {
    ...(storage_class === null ? {} : { StorageClass: storage_class as 'STANDARD' }),
    ...(sse === null ? {} : { ServerSideEncryption: sse }),
    ...(sse_kms_key_id === null ? {} : { SSEKMSKeyId: sse_kms_key_id }),
  };
}

/** Returns what a new object has beside its content. */
export function attributesOf(settings: S3Settings, options: OpenDestination) {
  const Metadata = metadataOf(options);
  return { ...storageOf(settings), Metadata, ...headersOf(options.headers) };
}

/** Returns the headers of a new object, as the SDK names them. */
function headersOf(headers: ContentHeaders = {}) {
  return {
    CacheControl: headers.cacheControl,
    ContentDisposition: headers.contentDisposition,
    ContentEncoding: headers.contentEncoding,
    ContentLanguage: headers.contentLanguage,
    ContentType: headers.contentType,
  };
}

/**
 * Returns the error of a rejected commit whose earlier try may have succeeded, when nothing that
 * the server shows identifies the object as ours. The mover reconnects and reads the object back.
 */
export function unclearCommit(key: string, cause: unknown): FileError {
  const message = `${key}: the answer to the commit was lost; the object must be read back`;
  return new FileError('connection_failed', 'commit', message, { cause });
}
