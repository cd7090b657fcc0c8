import { contentHeaders } from '../http/content-headers.ts';
import { createLifetime } from '../http/lifetime.ts';
import { type Answer, type Described, openRanges, sizeUnknown } from '../http/source-file.ts';
import { fromRfc3339, MTIME_KEY, toUnixTime } from '../modification-time.ts';
import { type ContentHeaders, FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

interface Properties extends ContentHeaders {
  contentLength?: number | undefined;
  etag?: string | undefined;
  lastModified?: Date | undefined;
  metadata?: Record<string, string> | undefined;
}

/**
 * Opens a blob for reading. Its size and ETag are its identity. Each later read sends the ETag as
 * its condition.
 */
export async function openSource(
  store: Store,
  name: string,
  signal: AbortSignal,
): Promise<SourceFile> {
  const lifetime = createLifetime(name, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'BlobNotFound')
      return fileError(error, step, name, 'source');
    return new FileError('source_changed', step, `${name} is no longer there`);
  });
  const blob = store.blob(name);

  async function get(
    first: number,
    target: Uint8Array,
    identity: FileIdentity | null,
  ): Promise<Answer> {
    // Each read has a signal of its own, which identifies the request that the target belongs to.
    const abortSignal = AbortSignal.any([lifetime.ended]);
    store.fill(target, abortSignal);
    const conditions = identity?.version ? { ifMatch: identity.version } : {};
    const answer = await blob.download(first, target.length, { abortSignal, conditions });
    return {
      range: answer.contentRange,
      describe: (size) => describe(name, answer, size),
      // The whole content came with the answer.
      read: async () => answer.contentLength ?? 0,
      discard: () => {},
    };
  }

  return openRanges(name, lifetime, {
    get,
    isPastEnd: (error) => serverAnswer(error) === 'InvalidRange',
    stat: async () => describe(name, await store.properties(name, lifetime.ended)),
  });
}

/**
 * Returns whether a blob stands for a folder. An account with a hierarchical namespace has such
 * blobs, and so do programs that mount a container. A list has the key as it was written, such as
 * `Hdi_isfolder` by AzCopy.
 */
export function isFolder({ metadata = {} }: Pick<Properties, 'metadata'>): boolean {
  return Object.entries(metadata).some(
    ([key, value]) => key.toLowerCase() === 'hdi_isfolder' && value === 'true',
  );
}

/** Throws `size_unknown` for a blob whose size the server does not say. */
export function describe(
  name: string,
  answer: Properties,
  contentLength = answer.contentLength,
): Described {
  // The answer has getters, which a rest or spread would lose.
  const { etag, lastModified, metadata } = answer;
  if (isFolder({ metadata }))
    throw new FileError('source_not_found', 'open', `${name} is a directory`);
  if (contentLength === undefined) throw sizeUnknown();
  const written = lastModified && lastModified.getTime() / 1_000;
  return {
    identity: { size: contentLength, version: etag ?? null },
    modifiedAt: fromRfc3339(metadata?.[MTIME_KEY]) ?? toUnixTime(written),
    headers: contentHeaders({
      contentType: answer.contentType,
      contentEncoding: answer.contentEncoding,
      contentLanguage: answer.contentLanguage,
      contentDisposition: answer.contentDisposition,
      cacheControl: answer.cacheControl,
    }),
  };
}
