import { createHash, randomUUID } from 'node:crypto';
import { writeBody } from './bodies.ts';
import { encryptionOf, etagOf, keptHeaders } from './objects.ts';
import type { Answer, Call } from './operations.ts';
import { commit, objectOf, requireReadable } from './store.ts';
import { document } from './xml.ts';

/**
 * Copies an object within its bucket, with its metadata unless the request replaces it. The ETag of
 * the copy is that of an object from one request, even if the source came in parts.
 */
export async function copyObject({ bucket, key, headers, folder }: Call): Promise<Answer> {
  const [, ...path] = String(headers['x-amz-copy-source']).split('/').map(decodeURIComponent);
  const source = objectOf(bucket, path.join('/'));
  requireReadable(source, { 'if-match': headers['x-amz-copy-source-if-match'] });
  const writer = await writeBody(folder, randomUUID());
  const md5 = createHash('md5');
  for await (const chunk of source.body.read(0, source.body.size - 1)) {
    md5.update(chunk);
    await writer.write(chunk);
  }
  const body = await writer.finish();
  const given = keptHeaders(headers);
  const { 'x-amz-storage-class': storage = 'STANDARD' } = given;
  const metadata = headers['x-amz-metadata-directive'] === 'REPLACE' ? given : source.headers;
  const kept = { ...metadata, ...encryptionOf(given), 'x-amz-storage-class': storage };
  const etag = etagOf(md5.digest(), kept);
  const object = { ...source, key, body, etag, headers: kept, lastModified: new Date() };
  try {
    await commit(bucket, object, headers);
  } catch (error) {
    await body.remove();
    throw error;
  }
  const result = { ETag: object.etag, LastModified: object.lastModified.toISOString() };
  return { status: 200, body: document('CopyObjectResult', result) };
}
