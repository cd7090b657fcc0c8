import { S3Error } from './errors.ts';
import type { Answer, Call } from './operations.ts';
import type { StoredObject } from './store.ts';
import { document } from './xml.ts';

const byUtf8 = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The requested number of entries, at most as many as an answer has. */
export function limitOf({ query, pageSize }: Call, name: string): number {
  return Math.min(countOf(query.get(name) ?? String(pageSize), name), pageSize);
}

export function countOf(text: string, name: string): number {
  const limit = Number(text);
  if (!Number.isInteger(limit) || limit < 0)
    throw new S3Error('InvalidArgument', `Provided ${name} not an integer or within integer range`);
  return limit;
}

/** Encodes names as the client requested with encoding-type. */
export function nameEncoder(encoding: string | undefined): (name: string) => string {
  if (encoding !== undefined && encoding !== 'url')
    throw new S3Error('InvalidArgument', 'Invalid Encoding Method specified in Request');
  return encoding === 'url'
    ? (name) => encodeURIComponent(name).replaceAll('%2F', '/').replaceAll('%20', '+')
    : (name) => name;
}

export async function listObjectsV2(call: Call): Promise<Answer> {
  const { bucket, bucketName, query } = call;
  if (query.get('list-type') !== '2')
    throw new S3Error('NotImplemented', 'Only version 2 of the list of objects');
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const limit = limitOf(call, 'max-keys');
  const encode = nameEncoder(query.get('encoding-type'));
  const token = query.get('continuation-token');
  const after =
    token === undefined ? query.get('start-after') : Buffer.from(token, 'base64').toString();

  const contents: StoredObject[] = [];
  const prefixes = new Set<string>();
  let last: string | undefined;
  let truncated = false;
  for (const key of [...bucket.objects.keys()]
    .filter((name) => name.startsWith(prefix))
    .sort(byUtf8)) {
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    const entry = end < 0 ? key : key.slice(0, end + delimiter.length);
    if ((after !== undefined && byUtf8(entry, after) <= 0) || prefixes.has(entry)) continue;
    truncated = contents.length + prefixes.size >= limit;
    if (truncated) break;
    last = entry;
    if (end < 0) contents.push(bucket.objects.get(key)!);
    else prefixes.add(entry);
  }

  const body = document('ListBucketResult', {
    Name: bucketName,
    Prefix: encode(prefix),
    Delimiter: delimiter === '' ? undefined : encode(delimiter),
    MaxKeys: limit,
    EncodingType: query.get('encoding-type'),
    KeyCount: contents.length + prefixes.size,
    ContinuationToken: token,
    NextContinuationToken:
      truncated && last !== undefined ? Buffer.from(last).toString('base64') : undefined,
    IsTruncated: truncated && limit > 0,
    Contents: contents.map(({ key, lastModified, etag, body: { size }, headers, checksum }) => ({
      Key: encode(key),
      LastModified: lastModified.toISOString(),
      ETag: etag,
      ChecksumAlgorithm: checksum.algorithm,
      ChecksumType: checksum.type,
      Size: size,
      StorageClass: headers['x-amz-storage-class'] ?? 'STANDARD',
    })),
    CommonPrefixes: [...prefixes].map((entry) => ({ Prefix: encode(entry) })),
  });
  return { status: 200, body };
}

export async function listMultipartUploads(call: Call): Promise<Answer> {
  const { bucket, bucketName, query } = call;
  const prefix = query.get('prefix') ?? '';
  const limit = limitOf(call, 'max-uploads');
  const encode = nameEncoder(query.get('encoding-type'));
  const keyMarker = query.get('key-marker') ?? '';
  const idMarker = query.get('upload-id-marker') ?? '';
  // Ids are compared only among uploads of the marked key, and rise with time.
  const rest = [...bucket.uploads.values()]
    .filter(({ key }) => key.startsWith(prefix))
    .filter(
      ({ key, id }) =>
        byUtf8(key, keyMarker) > 0 || (key === keyMarker && idMarker !== '' && id > idMarker),
    )
    .sort((a, b) => byUtf8(a.key, b.key) || byUtf8(a.id, b.id));
  const shown = rest.slice(0, limit);
  const last = rest.length > limit ? shown.at(-1) : undefined;
  const body = document('ListMultipartUploadsResult', {
    Bucket: bucketName,
    KeyMarker: encode(keyMarker),
    UploadIdMarker: idMarker,
    NextKeyMarker: last && encode(last.key),
    NextUploadIdMarker: last?.id,
    Prefix: encode(prefix),
    MaxUploads: limit,
    EncodingType: query.get('encoding-type'),
    IsTruncated: last !== undefined,
    Upload: shown.map(({ key, id, initiated, headers, algorithm, checksumType }) => ({
      Key: encode(key),
      UploadId: id,
      StorageClass: headers['x-amz-storage-class'] ?? 'STANDARD',
      Initiated: initiated.toISOString(),
      ChecksumAlgorithm: algorithm,
      ChecksumType: checksumType,
    })),
  });
  return { status: 200, body };
}
