import type { Readable } from 'node:stream';
import { GetObjectCommand, type HeadObjectCommandOutput } from '@aws-sdk/client-s3';
import type { SendOptions, Target } from '../http/http.ts';
import { createLifetime } from '../http/lifetime.ts';
import { otherRange, type Range, sourceFile } from '../http/source-file.ts';
import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/** Opens an object for reading. Its size and ETag are its identity, and the condition of every further read. */
export async function openSource(store: Store, key: string, signal: AbortSignal): Promise<SourceFile> {
  const lifetime = createLifetime(key, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'NoSuchKey') return fileError(error, step, key, 'source');
    return new FileError('source_changed', step, `${key} is no longer there`);
  });
  const stat = async () => identityOf(await store.head(key, lifetime.ended));
  const identity = await lifetime.run('open', stat);

  async function fill(range: Range, target: Uint8Array): Promise<void> {
    const into: Target = { bytes: target, filled: false };
    const options: SendOptions = { abortSignal: lifetime.ended, target: into };
    const { Body, ContentLength, ContentRange } = await store.s3.send(
      new GetObjectCommand({
        Bucket: store.settings.bucket,
        Key: key,
        Range: `bytes=${range.first}-${range.last}`,
        ...(identity.version?.startsWith('"') ? { IfMatch: identity.version } : {}),
      }),
      options,
    );
    const body = Body as Readable;
    if (ContentRange !== range.expected || ContentLength !== target.length) {
      body.destroy();
      throw otherRange(key, range, ContentRange);
    }
    let filled = into.filled ? target.length : 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (lifetime.ended.aborted) break;
      target.set(chunk, filled);
      filled += chunk.length;
    }
    if (filled < target.length) {
      throw new FileError('connection_failed', 'transfer', `${key}: the server sent ${filled} of ${target.length} bytes`);
    }
  }

  return sourceFile(key, identity, lifetime, { fill, stat });
}

function identityOf({ ContentLength, ETag, LastModified }: HeadObjectCommandOutput): FileIdentity {
  return { size: ContentLength ?? 0, version: ETag ?? LastModified?.toISOString() ?? null };
}
