import { createHash, randomBytes } from 'node:crypto';
import { joinBodies } from './bodies.ts';
import { ALGORITHMS, type ChecksumAlgorithm, combine, createChecksum } from './checksums.ts';
import { S3Error } from './errors.ts';
import { countOf, limitOf, nameEncoder } from './listings.ts';
import { encryptionOf, etagOf, keptHeaders } from './objects.ts';
import type { Answer, Call } from './operations.ts';
import { algorithmOf, checksumHeader, receive } from './receive.ts';
import { type ChecksumType, commit, type Part, type StoredObject, type Upload } from './store.ts';
import { document, elements } from './xml.ts';

const MIN_PART_BYTES = 5 << 20;
const MAX_PARTS = 10_000;

let created = 0;

function uploadOf({ bucket, key, query }: Call): Upload {
  const upload = bucket.uploads.get(query.get('uploadId') ?? '');
  if (upload?.key !== key)
    throw new S3Error('NoSuchUpload', 'The specified multipart upload does not exist.');
  return upload;
}

export async function createMultipartUpload({
  bucket,
  bucketName,
  key,
  headers,
  wholeChecksums,
}: Call): Promise<Answer> {
  const asked = headers['x-amz-checksum-algorithm'] as ChecksumAlgorithm | undefined;
  if (asked !== undefined && !ALGORITHMS.includes(asked))
    throw new S3Error('InvalidRequest', 'Checksum algorithm provided is unsupported');
  const algorithm = asked ?? 'CRC64NVME';
  const usual = algorithm === 'CRC64NVME' || wholeChecksums ? 'FULL_OBJECT' : 'COMPOSITE';
  const checksumType = (headers['x-amz-checksum-type'] ?? usual) as ChecksumType;
  const impossible =
    checksumType === 'FULL_OBJECT' ? algorithm.startsWith('SHA') : algorithm === 'CRC64NVME';
  if (impossible)
    throw new S3Error(
      'InvalidRequest',
      `The ${checksumType} checksum type cannot be used with ${algorithm}`,
    );
  const id = `${String(++created).padStart(8, '0')}-${randomBytes(12).toString('hex')}`;
  const kept = keptHeaders(headers);
  bucket.uploads.set(id, {
    id,
    key,
    initiated: new Date(),
    headers: kept,
    algorithm,
    checksumType,
    parts: new Map(),
  });
  return {
    status: 200,
    headers: {
      ...encryptionOf(kept),
      'x-amz-checksum-algorithm': algorithm,
      'x-amz-checksum-type': checksumType,
    },
    body: document('InitiateMultipartUploadResult', { Bucket: bucketName, Key: key, UploadId: id }),
  };
}

export async function uploadPart(call: Call): Promise<Answer> {
  const { query, headers, content, folder, authentication, bucket } = call;
  const upload = uploadOf(call);
  const number = Number(query.get('partNumber'));
  if (!Number.isInteger(number) || number < 1 || number > MAX_PARTS)
    throw new S3Error(
      'InvalidArgument',
      `Part number must be an integer between 1 and ${MAX_PARTS}, inclusive`,
    );
  const algorithm = algorithmOf(headers) ?? upload.algorithm;
  if (algorithm !== upload.algorithm)
    throw new S3Error(
      'InvalidRequest',
      `Checksum Type mismatch occurred, expected ${upload.algorithm}, actual ${algorithm}`,
    );
  const { body, md5, checksum } = await receive(
    folder,
    content(),
    headers,
    authentication,
    algorithm,
  );
  if (!bucket.uploads.has(upload.id)) {
    await body.remove();
    throw new S3Error('NoSuchUpload');
  }
  const etag = etagOf(md5, upload.headers);
  const before = upload.parts.get(number);
  upload.parts.set(number, { number, body, etag, md5, checksum, lastModified: new Date() });
  await before?.body.remove();
  const checksumHeaders = { [checksumHeader(algorithm)]: checksum.toString('base64') };
  return { status: 200, headers: { etag, ...encryptionOf(upload.headers), ...checksumHeaders } };
}

export async function listParts(call: Call): Promise<Answer> {
  const { query, bucketName, key } = call;
  const upload = uploadOf(call);
  const limit = limitOf(call, 'max-parts');
  const marker = countOf(query.get('part-number-marker') ?? '0', 'part-number-marker');
  const rest = [...upload.parts.values()]
    .filter(({ number }) => number > marker)
    .sort((a, b) => a.number - b.number);
  const shown = rest.slice(0, limit);
  const body = document('ListPartsResult', {
    Bucket: bucketName,
    Key: nameEncoder(query.get('encoding-type'))(key),
    UploadId: upload.id,
    PartNumberMarker: marker,
    NextPartNumberMarker: shown.at(-1)?.number ?? 0,
    MaxParts: limit,
    IsTruncated: rest.length > limit,
    StorageClass: upload.headers['x-amz-storage-class'] ?? 'STANDARD',
    ChecksumAlgorithm: upload.algorithm,
    ChecksumType: upload.checksumType,
    Part: shown.map(({ number, lastModified, etag, body: { size }, checksum }) => ({
      PartNumber: number,
      LastModified: lastModified.toISOString(),
      ETag: etag,
      Size: size,
      [`Checksum${upload.algorithm}`]: checksum.toString('base64'),
    })),
  });
  return { status: 200, body };
}

export async function abortMultipartUpload(call: Call): Promise<Answer> {
  const upload = uploadOf(call);
  call.bucket.uploads.delete(upload.id);
  await Promise.all([...upload.parts.values()].map(({ body }) => body.remove()));
  return { status: 204 };
}

export async function completeMultipartUpload(call: Call): Promise<Answer> {
  const { bucket, bucketName, key, headers, text, location, wholeChecksums } = call;
  const list = await text();
  const upload = uploadOf(call);
  const parts = chosenParts(upload, list);
  const body = joinBodies(parts.map((part) => part.body));
  const size = headers['x-amz-mp-object-size'];
  if (size !== undefined && Number(size) !== body.size)
    throw new S3Error(
      'InvalidRequest',
      `The provided x-amz-mp-object-size ${size} does not match the size ${body.size}`,
    );
  const checksum = checksumOf(upload, parts);
  const expected = headers[checksumHeader(upload.algorithm)];
  if (expected !== undefined && expected !== checksum)
    throw new S3Error(
      'BadDigest',
      `The ${upload.algorithm} you specified did not match the calculated checksum`,
    );

  const md5 = createHash('md5')
    .update(Buffer.concat(parts.map((part) => part.md5)))
    .digest();
  const object: StoredObject = {
    key,
    body,
    etag: etagOf(md5, upload.headers).replace(/"$/, wholeChecksums ? '"' : `-${parts.length}"`),
    lastModified: upload.initiated,
    headers: upload.headers,
    checksum: { algorithm: upload.algorithm, value: checksum, type: upload.checksumType },
  };
  await commit(bucket, object, headers);
  bucket.uploads.delete(upload.id);
  const unused = [...upload.parts.values()].filter((part) => !parts.includes(part));
  await Promise.all(unused.map((part) => part.body.remove()));
  const result = {
    Location: location,
    Bucket: bucketName,
    Key: key,
    ETag: object.etag,
    [`Checksum${upload.algorithm}`]: checksum,
    ChecksumType: upload.checksumType,
  };
  return {
    status: 200,
    headers: encryptionOf(upload.headers),
    body: document('CompleteMultipartUploadResult', result),
  };
}

function chosenParts(upload: Upload, text: string): Part[] {
  const chosen = elements(text, 'Part');
  if (chosen.length === 0 || chosen.length > MAX_PARTS)
    throw new S3Error('MalformedXML', 'The XML you provided was not well-formed');
  const parts = chosen.map((entry, index) => {
    const number = Number(entry.PartNumber);
    if (index > 0 && number <= Number(chosen[index - 1]!.PartNumber))
      throw new S3Error('InvalidPartOrder', 'The list of parts was not in ascending order');
    const part = upload.parts.get(number);
    const etag = entry.ETag?.replaceAll('"', '');
    if (part?.etag.replaceAll('"', '') !== etag || part === undefined)
      throw new S3Error('InvalidPart', 'One or more of the specified parts could not be found', {
        PartNumber: number,
      });
    const checksum = entry[`Checksum${upload.algorithm}`];
    if (checksum === undefined && upload.checksumType === 'COMPOSITE')
      throw new S3Error(
        'InvalidRequest',
        `The upload was created using a ${upload.algorithm} checksum; it was missing for ` +
          `part ${number}`,
      );
    if (checksum !== undefined && checksum !== part.checksum.toString('base64'))
      throw new S3Error('InvalidPart');
    return part;
  });
  const small = parts.slice(0, -1).find((part) => part.body.size < MIN_PART_BYTES);
  if (small) {
    const details = {
      ProposedSize: small.body.size,
      MinSizeAllowed: MIN_PART_BYTES,
      PartNumber: small.number,
    };
    throw new S3Error(
      'EntityTooSmall',
      'Your proposed upload is smaller than the minimum allowed size',
      details,
    );
  }
  return parts;
}

function checksumOf({ algorithm, checksumType }: Upload, parts: Part[]): string {
  const digests = parts.map(({ checksum, body: { size } }) => ({ digest: checksum, size }));
  if (checksumType === 'FULL_OBJECT') return combine(algorithm, digests).toString('base64');
  const whole = createChecksum(algorithm);
  for (const { digest } of digests) whole.update(digest);
  return `${whole.digest().toString('base64')}-${parts.length}`;
}
