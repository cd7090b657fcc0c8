import { randomUUID } from 'node:crypto';
import { writeBody } from './bodies.ts';
import { keptHeaders } from './objects.ts';
import type { Answer, Call } from './operations.ts';
import { commit, objectOf, requireReadable } from './store.ts';
import { document } from './xml.ts';

/** Copies an object within its bucket, with its metadata. */
export async function copyObject({ bucket, key, headers, folder }: Call): Promise<Answer> {
  const [, ...path] = String(headers['x-amz-copy-source']).split('/').map(decodeURIComponent);
  const source = objectOf(bucket, path.join('/'));
  requireReadable(source, { 'if-match': headers['x-amz-copy-source-if-match'] });
  const writer = await writeBody(folder, randomUUID());
  for await (const chunk of source.body.read(0, source.body.size - 1)) await writer.write(chunk);
  const body = await writer.finish();
  const { 'x-amz-storage-class': storage = 'STANDARD' } = keptHeaders(headers);
  const kept = { ...source.headers, 'x-amz-storage-class': storage };
  const object = { ...source, key, body, headers: kept, lastModified: new Date() };
  try {
    await commit(bucket, object, headers);
  } catch (error) {
    await body.remove();
    throw error;
  }
  const result = { ETag: object.etag, LastModified: object.lastModified.toISOString() };
  return { status: 200, body: document('CopyObjectResult', result) };
}
