import {
  CopyObjectCommand,
  DeleteObjectCommand,
  type DeleteObjectCommandOutput,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3';
import type { S3Settings } from '../../../domain/protocols/s3.ts';
import { type DisposeProgress, isSame, unclear } from '../dispose.ts';
import { type DisposeRequests, disposeByCopy } from '../http/dispose-by-copy.ts';
import { pageInPlace } from '../http/other-service.ts';
import { type Disposed, type DisposeOptions, FileError, type FileIdentity } from '../port.ts';
import { fileError, isMissing, isUnknownHeader, serverAnswer } from './errors.ts';
import type { ObjectAnswer } from './first-try.ts';
import { setHeaders } from './headers.ts';
import { TRANSFER_KEY } from './metadata.ts';
import { storageOf } from './new-object.ts';
import { describe } from './source.ts';
import type { Store } from './store.ts';

/** S3 copies no larger object in one request ("CopyObject"). */
const MAX_COPY_BYTES = 5 * 2 ** 30;
/**
 * The conditions of Ceph, which ignores those of Amazon here: that the object is not newer, by whole
 * seconds, and that the source has this ETag. Other servers ignore these headers.
 */
const CEPH_DELETE_IF = 'x-amz-delete-if-unmodified-since';
const CEPH_COPY_IF = 'x-amz-copy-if-match';
/**
 * The version of each object in a bucket with suspended versioning. There, Ceph acknowledges a
 * delete with its condition and keeps the object, unless the time is later than that of the object.
 */
const SUSPENDED = 'null';

/**
 * Deletes or moves an object, if it is still the one that was copied. A move is a copy on the
 * server and then a delete. The delete has the ETag as its condition, and the time for Ceph, which
 * ignores the ETag. A server that ignores both deletes a newer object, if that appears after the
 * look before.
 */
export function dispose(store: Store, key: string, options: DisposeOptions): Promise<Disposed> {
  const { signal, transferId } = options;
  const requests: DisposeRequests<ObjectAnswer> = {
    find: (name) => find(store, name, signal),
    identityOf: (found) => describe(found).identity,
    isCopy: ({ Metadata }) => Metadata?.[TRANSFER_KEY] === transferId,
    sizeOf: ({ ContentLength }) => ContentLength,
    copyTo: (target, source) => copyTo(store, key, target, source, options),
    remove: (progress, source) => remove(store, key, source, options, progress),
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
  const ifCopied: Record<string, string> = etag === null ? {} : { 'if-match': etag };

  function removeIf(notAfter: Date | undefined): Promise<DeleteObjectCommandOutput> {
    const forCeph = notAfter && { [CEPH_DELETE_IF]: notAfter.toISOString() };
    return sendKnown([{ ...ifCopied, ...forCeph }, ifCopied, {}], (known) => {
      const command = new DeleteObjectCommand({ Bucket: store.settings.bucket, Key: key });
      setHeaders(command, known);
      return store.s3.send(command, { abortSignal: signal });
    });
  }

  progress.begun = true;
  try {
    const { VersionId } = await removeIf(LastModified);
    if (LastModified && VersionId === SUSPENDED)
      await removeIf(new Date(LastModified.getTime() + 1_000)).catch((error) => {
        // Other servers have deleted the object the first time.
        if (serverAnswer(error) === null) throw error;
      });
    return null;
  } catch (error) {
    if (!isMissing(error) && serverAnswer(error) !== 'PreconditionFailed') throw error;
    const head = await find(store, key, signal);
    if (head === null) throw unclear(key);
    return { outcome: 'changed', found: describe(head).identity };
  }
}

/**
 * Sends a request with as many of the headers as the server knows. `headers` begins with all of
 * them, and each next one has fewer.
 */
async function sendKnown<Answer>(
  headers: Record<string, string>[],
  send: (known: Record<string, string>) => Promise<Answer>,
): Promise<Answer> {
  const [known = {}, ...fewer] = headers;
  try {
    return await send(known);
  } catch (error) {
    if (fewer.length === 0 || !isUnknownHeader(error)) throw error;
    return sendKnown(fewer, send);
  }
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
): Promise<'copied' | 'taken'> {
  const { s3, settings } = store;
  const isMarked = !keepsETag(head, settings);
  const compare = (there: ObjectAnswer) => {
    if (isSame(describe(there).identity, identity)) return 'copied';
    return isMarked && there.Metadata?.[TRANSFER_KEY] === transferId ? 'copied' : 'taken';
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
  const isNew = { 'if-none-match': '*' };
  try {
    // A server that lacks the condition for the name has been asked for it just before.
    const { CopyObjectResult } = await sendKnown(
      [{ ...isNew, ...(condition && { [CEPH_COPY_IF]: condition }) }, isNew, {}],
      (known) => {
        const command = new CopyObjectCommand(copy);
        setHeaders(command, known);
        return s3.send(command, { abortSignal: signal });
      },
    );
    if (!CopyObjectResult?.ETag) throw pageInPlace(target, 'commit');
    return 'copied';
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
    Metadata: { ...Metadata, [TRANSFER_KEY]: transferId },
  };
}
