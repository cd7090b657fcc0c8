import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { S3Error } from './errors.ts';
import type { Answer, Call } from './operations.ts';
import { algorithmOf, checksumHeader, receive } from './receive.ts';
import { commit, objectOf, requireReadable, requireWritable, type StoredObject } from './store.ts';

const KEPT = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-type',
  'expires',
  'x-amz-server-side-encryption',
  'x-amz-server-side-encryption-aws-kms-key-id',
  'x-amz-storage-class',
];

/** The headers of a creation that the object returns. */
export function keptHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {
    'content-type': 'binary/octet-stream',
    'x-amz-server-side-encryption': 'AES256',
  };
  for (const [name, value] of Object.entries(headers))
    if (KEPT.includes(name) || name.startsWith('x-amz-meta-')) kept[name] = String(value);
  const encodings = kept['content-encoding']?.split(',').map((encoding) => encoding.trim());
  if (encodings)
    kept['content-encoding'] = encodings.filter((encoding) => encoding !== 'aws-chunked').join(',');
  if (kept['content-encoding'] === '') delete kept['content-encoding'];
  return kept;
}

/** The MD5 in hex, except under a KMS key. */
export function etagOf(md5: Buffer, headers: Record<string, string>): string {
  return `"${(headers['x-amz-server-side-encryption'] === 'aws:kms' ? randomBytes(16) : md5).toString('hex')}"`;
}

export function encryptionOf(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name.startsWith('x-amz-server-side-encryption')),
  );
}

export async function putObject({
  bucket,
  key,
  headers,
  content,
  folder,
  authentication,
}: Call): Promise<Answer> {
  const kept = keptHeaders(headers);
  const { body, md5, checksum, algorithm } = await receive(
    folder,
    content(),
    headers,
    authentication,
    algorithmOf(headers) ?? 'CRC64NVME',
  );
  const object: StoredObject = {
    key,
    body,
    etag: etagOf(md5, kept),
    lastModified: new Date(),
    headers: kept,
    checksum: { algorithm, value: checksum.toString('base64'), type: 'FULL_OBJECT' },
  };
  try {
    await commit(bucket, object, headers);
  } catch (error) {
    await body.remove();
    throw error;
  }
  return {
    status: 200,
    headers: { etag: object.etag, ...encryptionOf(kept), ...checksumHeaders(object) },
  };
}

/** Also serves HeadObject. */
export async function getObject({ bucket, key, headers }: Call): Promise<Answer> {
  const object = objectOf(bucket, key);
  requireReadable(object, headers);
  const { size } = object.body;
  const shown = {
    ...object.headers,
    etag: object.etag,
    'last-modified': object.lastModified.toUTCString(),
    'accept-ranges': 'bytes',
  };
  const range = rangeOf(headers.range, size);
  if (!range) {
    const checksum = headers['x-amz-checksum-mode'] === 'ENABLED' ? checksumHeaders(object) : {};
    return {
      status: 200,
      headers: { ...shown, ...checksum, 'content-length': String(size) },
      body: object.body.read(0, size - 1),
    };
  }
  const [start, end] = range;
  return {
    status: 206,
    headers: {
      ...shown,
      'content-length': String(end - start + 1),
      'content-range': `bytes ${start}-${end}/${size}`,
    },
    body: object.body.read(start, end),
  };
}

function checksumHeaders({ checksum }: StoredObject): Record<string, string> {
  return {
    [checksumHeader(checksum.algorithm)]: checksum.value,
    'x-amz-checksum-type': checksum.type,
  };
}

/** First and last byte; null for the whole object, also if the header is not a valid range. */
function rangeOf(header: string | undefined, size: number): [number, number] | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || match[0] === 'bytes=-') return null;
  const [, first, last] = match as unknown as [string, string, string];
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (start >= size || (first === '' && Number(last) === 0))
    throw new S3Error('InvalidRange', 'The requested range is not satisfiable', {
      RangeRequested: header!,
      ActualObjectSize: size,
    });
  return start > end ? null : [start, end];
}

export async function deleteObject({ bucket, key, headers }: Call): Promise<Answer> {
  const object = bucket.objects.get(key);
  if (headers['if-match'] !== undefined) requireWritable(object, headers);
  bucket.objects.delete(key);
  await object?.body.remove();
  return { status: 204 };
}
