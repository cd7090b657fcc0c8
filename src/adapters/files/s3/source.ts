import type { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { contentHeaders } from '../http/content-headers.ts';
import type { SendOptions, Target } from '../http/http.ts';
import { createLifetime } from '../http/lifetime.ts';
import { type Answer, type Described, openRanges, sizeUnknown } from '../http/source-file.ts';
import { MTIME_KEY, toUnixTime } from '../modification-time.ts';
import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

interface Properties {
  ContentLength?: number | undefined;
  ETag?: string | undefined;
  LastModified?: Date | undefined;
  Metadata?: Record<string, string> | undefined;
  CacheControl?: string | undefined;
  ContentDisposition?: string | undefined;
  ContentEncoding?: string | undefined;
  ContentLanguage?: string | undefined;
  ContentType?: string | undefined;
}

/**
 * Opens an object for reading. Its size and ETag are its identity. Each later read sends the ETag
 * as its condition.
 */
export async function openSource(
  store: Store,
  key: string,
  signal: AbortSignal,
): Promise<SourceFile> {
  const lifetime = createLifetime(key, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'NoSuchKey')
      return fileError(error, step, key, 'source');
    return new FileError('source_changed', step, `${key} is no longer there`);
  });

  async function get(
    first: number,
    target: Uint8Array,
    identity: FileIdentity | null,
  ): Promise<Answer> {
    const into: Target = { bytes: target, filled: null };
    const range = {
      Bucket: store.settings.bucket,
      Key: key,
      Range: `bytes=${first}-${first + target.length - 1}`,
    };
    const options: SendOptions = { abortSignal: lifetime.ended, target: into };
    const { Body, ...answer } = await store.send(
      new GetObjectCommand({ ...range, ...condition(identity) }),
      options,
    );
    const body = Body as Readable;
    return {
      range: answer.ContentRange,
      describe: (size) => describe({ ...answer, ContentLength: size }),
      read: async () => into.filled ?? (await readInto(body, target)),
      discard: () => body.destroy(),
    };
  }

  /** Returns the number of bytes received. */
  async function readInto(body: Readable, target: Uint8Array): Promise<number> {
    let filled = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (lifetime.ended.aborted) break;
      if (filled + chunk.length <= target.length) target.set(chunk, filled);
      filled += chunk.length;
      if (filled > target.length) break;
    }
    return filled;
  }

  return openRanges(key, lifetime, {
    get,
    isPastEnd: (error) => serverAnswer(error) === 'InvalidRange',
    stat: async () => describe(await store.head(key, lifetime.ended)),
  });
}

/** Returns the condition of a read. A weak ETag or a time can't be one. */
function condition(identity: FileIdentity | null): { IfMatch?: string } {
  return identity?.version?.startsWith('"') ? { IfMatch: identity.version } : {};
}

/** Throws `size_unknown` for an object whose size the server does not say. */
export function describe({
  ContentLength,
  ETag,
  LastModified,
  Metadata,
  ...headers
}: Properties): Described {
  if (ContentLength === undefined) throw sizeUnknown();
  const written = LastModified && LastModified.getTime() / 1_000;
  return {
    identity: { size: ContentLength, version: ETag ?? LastModified?.toISOString() ?? null },
    modifiedAt: toUnixTime(Metadata?.[MTIME_KEY]) ?? toUnixTime(written),
    headers: contentHeaders({
      contentType: headers.ContentType,
      contentEncoding: headers.ContentEncoding,
      contentLanguage: headers.ContentLanguage,
      contentDisposition: headers.ContentDisposition,
      cacheControl: headers.CacheControl,
    }),
  };
}
