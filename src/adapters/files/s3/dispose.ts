import {
  CopyObjectCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3';
import type { S3Settings } from '../../../domain/protocols/s3.ts';
import { type DisposeProgress, isSame, unclear } from '../dispose.ts';
import { type DisposeRequests, disposeByCopy } from '../http/dispose-by-copy.ts';
import { type Disposed, type DisposeOptions, FileError, type FileIdentity } from '../port.ts';
import { fileError, isMissing, isUnknownHeader, serverAnswer } from './errors.ts';
import type { ObjectAnswer } from './first-try.ts';
import { setHeaders } from './headers.ts';
import { storageOf } from './new-object.ts';
import { describe } from './source.ts';
import type { Store } from './store.ts';

/** S3 copies no larger object in one request ("CopyObject"). */
const MAX_COPY_BYTES = 5 * 2 ** 30;
/** Ceph deletes no object that is newer, by whole seconds. Other servers ignore this header. */
const CEPH_CONDITION = 'x-amz-delete-if-unmodified-since';
/** The metadata key that names the transfer whose move made a copy. */
const MOVED_BY = 'waybill-transfer';

/**
 * Deletes or moves an object, if it is still the one that was copied. A move is a copy on the
 * server and then a delete. The delete has the ETag as its condition, and the time for Ceph, which
 * ignores the ETag. A server that ignores both deletes a newer object, if that appears after the
 * look before.
 */
export function dispose(store: Store, key: string, options: DisposeOptions): Promise<Disposed> {
  const { signal } = options;
  const requests: DisposeRequests<ObjectAnswer> = {
    find: (name) => find(store, name, signal),
    identityOf: (found) => describe(found).identity,
    sizeOf: ({ ContentLength }) => ContentLength,
    copyTo: (target, source) => copyTo(store, key, target, source, options),
    remove: (progress, source) => remove(store, key, source, options, progress),
    removeCopy: (target) => deleteKey(store, target, signal),
    fileError: (error) => fileError(error, 'commit', key, 'source'),
  };
  return disposeByCopy(requests, key, options);
}

/** Returns null if there is no object. */
async function find(store: Store, key: string, signal: AbortSignal): Promise<ObjectAnswer | null> {
  try {
    return await store.head(key, signal);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Deletes the object. Returns what has its name, if that is not the object that was copied. */
async function remove(
  store: Store,
  key: string,
  { LastModified }: ObjectAnswer,
  { identity, signal }: DisposeOptions,
  progress: DisposeProgress,
): Promise<Extract<Disposed, { outcome: 'changed' }> | null> {
  const etag = conditionOf(identity);
  progress.begun = true;
  try {
    await deleteIf(store, key, signal, {
      ...(etag && { 'if-match': etag }),
      ...(LastModified && { [CEPH_CONDITION]: LastModified.toISOString() }),
    });
    return null;
  } catch (error) {
    if (!isMissing(error) && serverAnswer(error) !== 'PreconditionFailed') throw error;
    const head = await find(store, key, signal);
    if (head === null) throw unclear(key);
    return { outcome: 'changed', found: describe(head).identity };
  }
}

/** Deletes the object on these conditions, or on those of them that the server does not reject. */
async function deleteIf(
  store: Store,
  key: string,
  signal: AbortSignal,
  conditions: Record<string, string>,
): Promise<void> {
  try {
    await deleteKey(store, key, signal, conditions);
  } catch (error) {
    if (!isUnknownHeader(error)) throw error;
    const { [CEPH_CONDITION]: time, 'if-match': etag } = conditions;
    if (time !== undefined) await deleteIf(store, key, signal, etag ? { 'if-match': etag } : {});
    else if (etag !== undefined) await deleteKey(store, key, signal);
    else throw error;
  }
}

async function deleteKey(
  { s3, settings }: Store,
  Key: string,
  abortSignal: AbortSignal,
  conditions: Record<string, string> = {},
): Promise<void> {
  const command = new DeleteObjectCommand({ Bucket: settings.bucket, Key });
  setHeaders(command, conditions);
  await s3.send(command, { abortSignal });
}

/** A weak ETag, or a time, can't be a condition. */
function conditionOf({ version }: FileIdentity): string | null {
  return version?.startsWith('"') ? version : null;
}

/**
 * Copies an object on the server, unless the name is taken. An interrupted call may have copied it:
 * an object of the same size and ETag has the same content. A copy that gets another ETag names the
 * transfer in its metadata.
 */
async function copyTo(
  store: Store,
  key: string,
  target: string,
  head: ObjectAnswer,
  { identity, transferId, signal }: DisposeOptions,
): Promise<'new' | 'present' | 'taken'> {
  const { s3, settings } = store;
  const isMarked = !keepsETag(head, settings);
  const compare = async (there: ObjectAnswer) => {
    if (isSame(describe(there).identity, identity)) return 'present';
    if (!isMarked) return 'taken';
    const { Metadata } = await headWhole(store, target, signal);
    return Metadata?.[MOVED_BY] === transferId ? 'present' : 'taken';
  };
  const there = await find(store, target, signal);
  if (there !== null) return compare(there);
  if (identity.size > MAX_COPY_BYTES)
    throw new FileError('file_too_large', 'commit', `${key}: S3 copies no object above 5 GiB`);
  const condition = conditionOf(identity);
  const source = [settings.bucket, ...key.split('/')].map(encodeURIComponent).join('/');
  const { StorageClass: _, ...encryption } = storageOf(settings);
  const copy = {
    Bucket: settings.bucket,
    Key: target,
    CopySource: source,
    ...(condition && { CopySourceIfMatch: condition }),
    ...(head.StorageClass && { StorageClass: head.StorageClass }),
    ...encryption,
    ...(isMarked && marked(await headWhole(store, key, signal), transferId)),
  };
  const send = (more: { IfNoneMatch?: string }) =>
    s3.send(new CopyObjectCommand({ ...copy, ...more }), { abortSignal: signal });
  try {
    // A server that lacks this condition has been asked for the name just before.
    await send({ IfNoneMatch: '*' }).catch((error) => {
      if (serverAnswer(error) !== 'NotImplemented') throw error;
      return send({});
    });
    return 'new';
  } catch (error) {
    if (serverAnswer(error) !== 'PreconditionFailed') throw error;
    // The SDK repeats a copy whose answer was lost. It then finds the object that it made.
    const made = await find(store, target, signal);
    if (made === null) throw error;
    return compare(made);
  }
}

/** Returns whether a copy gets the ETag of its source: the MD5 of the content, for both. */
function keepsETag({ ETag, ServerSideEncryption }: ObjectAnswer, { sse }: S3Settings): boolean {
  const isMd5 = /^"[0-9a-f]{32}"$/.test(ETag ?? '');
  return isMd5 && ![ServerSideEncryption, sse].some((used) => used?.startsWith('aws:kms'));
}

/** Asks for all that the server says of an object: `store.head` leaves most metadata out. */
function headWhole(
  { s3, settings }: Store,
  Key: string,
  abortSignal: AbortSignal,
): Promise<HeadObjectCommandOutput> {
  return s3.send(new HeadObjectCommand({ Bucket: settings.bucket, Key }), { abortSignal });
}

/** Returns the metadata of a copy: that of the source, and the transfer. S3 cannot add to it. */
function marked(source: HeadObjectCommandOutput, transferId: string) {
  const { CacheControl, ContentDisposition, ContentEncoding, ContentLanguage } = source;
  const { ContentType, Expires, Metadata } = source;
  return {
    MetadataDirective: 'REPLACE' as const,
    ...{ CacheControl, ContentDisposition, ContentEncoding, ContentLanguage, ContentType, Expires },
    Metadata: { ...Metadata, [MOVED_BY]: transferId },
  };
}
