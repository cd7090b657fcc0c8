import type { Body } from './bodies.ts';
import type { ChecksumAlgorithm } from './checksums.ts';
import { S3Error } from './errors.ts';

export interface StoredObject {
  key: string;
  body: Body;
  /** With its quotes. */
  etag: string;
  /** S3 has whole seconds in headers, and milliseconds in lists. */
  lastModified: Date;
  /** The headers of its creation that it returns. */
  headers: Record<string, string>;
  checksum: { algorithm: ChecksumAlgorithm; value: string; type: ChecksumType };
}

export type ChecksumType = 'FULL_OBJECT' | 'COMPOSITE';

export interface Part {
  number: number;
  body: Body;
  etag: string;
  md5: Buffer;
  checksum: Buffer;
  lastModified: Date;
}

export interface Upload {
  id: string;
  key: string;
  initiated: Date;
  headers: Record<string, string>;
  algorithm: ChecksumAlgorithm;
  checksumType: ChecksumType;
  parts: Map<number, Part>;
}

export interface Bucket {
  objects: Map<string, StoredObject>;
  uploads: Map<string, Upload>;
}

export function objectOf(bucket: Bucket, key: string): StoredObject {
  const object = bucket.objects.get(key);
  if (!object) throw new S3Error('NoSuchKey', 'The specified key does not exist.', { Key: key });
  return object;
}

/** Replaces the existing object if the request's If-Match and If-None-Match allow it. */
export async function commit(
  bucket: Bucket,
  object: StoredObject,
  headers: Record<string, unknown>,
): Promise<void> {
  const before = bucket.objects.get(object.key);
  requireWritable(before, headers);
  bucket.objects.set(object.key, object);
  await before?.body.remove();
}

/** Throws unless the request's If-Match and If-None-Match allow a change of the object. */
export function requireWritable(
  before: StoredObject | undefined,
  headers: Record<string, unknown>,
): void {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (noneMatch !== undefined && noneMatch !== '*')
    throw new S3Error('NotImplemented', 'If-None-Match of a write takes * only');
  if (noneMatch === '*' && before)
    throw new S3Error('PreconditionFailed', 'If-None-Match', { Condition: 'If-None-Match' });
  if (match !== undefined && !before) throw new S3Error('NoSuchKey');
  if (match !== undefined && !matches(String(match), before!.etag))
    throw new S3Error('PreconditionFailed', 'If-Match', { Condition: 'If-Match' });
}

/** In the order of RFC 9110, section 13.2.2. Times are compared in whole seconds. */
export function requireReadable(object: StoredObject, headers: Record<string, unknown>): void {
  const modified = Math.floor(object.lastModified.getTime() / 1000) * 1000;
  const { 'if-match': match, 'if-none-match': noneMatch } = headers;
  const unmodifiedSince = Date.parse(String(headers['if-unmodified-since']));
  const modifiedSince = Date.parse(String(headers['if-modified-since']));
  const failed =
    match !== undefined ? !matches(String(match), object.etag) : modified > unmodifiedSince;
  if (failed)
    throw new S3Error('PreconditionFailed', 'At least one of the preconditions did not hold');
  const unchanged =
    noneMatch !== undefined ? matches(String(noneMatch), object.etag) : modified <= modifiedSince;
  if (unchanged) throw new S3Error('NotModified');
}

function matches(condition: string, etag: string): boolean {
  return (
    condition === '*' ||
    condition.split(',').some((one) => one.trim().replaceAll('"', '') === etag.replaceAll('"', ''))
  );
}
