import type { Readable } from 'node:stream';
import { GetObjectCommand, type HeadObjectCommandOutput } from '@aws-sdk/client-s3';
import { abortError } from '../abort.ts';
import type { SendOptions, Target } from '../http/http.ts';
import { FileError, type FileIdentity, type FileStep, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/** Opens an object for reading. Its size and ETag are its identity, and the condition of every further read. */
export async function openSource(store: Store, key: string, signal: AbortSignal): Promise<SourceFile> {
  try {
    return sourceFile(store, { key, identity: identityOf(await store.head(key, signal)), signal });
  } catch (error) {
    throw signal.aborted ? abortError(signal, 'open') : fileError(error, 'open', key, 'source');
  }
}

function identityOf({ ContentLength, ETag, LastModified }: HeadObjectCommandOutput): FileIdentity {
  return { size: ContentLength ?? 0, version: ETag ?? LastModified?.toISOString() ?? null };
}

interface Opened {
  key: string;
  identity: FileIdentity;
  signal: AbortSignal;
}

function sourceFile({ s3, settings, head }: Store, { key, identity, signal }: Opened): SourceFile {
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);
  const reads = new Set<Promise<void>>();

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed.signal.aborted) return new FileError('connection_failed', step, `${key} was closed`);
    if (serverAnswer(error) === 'NoSuchKey') return new FileError('source_changed', step, `${key} is no longer there`);
    return fileError(error, step, key, 'source');
  }

  async function fill(offset: number, target: Uint8Array): Promise<void> {
    const last = offset + target.length - 1;
    if (last >= identity.size) throw new FileError('source_changed', 'transfer', `${key} has ${identity.size} bytes`);
    const range = `bytes ${offset}-${last}/${identity.size}`;
    const into: Target = { bytes: target, filled: false };
    const options: SendOptions = { abortSignal: ended, target: into };
    const { Body, ContentLength, ContentRange } = await s3.send(
      new GetObjectCommand({
        Bucket: settings.bucket,
        Key: key,
        Range: `bytes=${offset}-${last}`,
        ...(identity.version?.startsWith('"') ? { IfMatch: identity.version } : {}),
      }),
      options,
    );
    const body = Body as Readable;
    if (ContentRange !== range || ContentLength !== target.length) {
      body.destroy();
      throw new FileError('source_changed', 'transfer', `${key}: asked for ${range}, the server sends ${ContentRange ?? 'no range'}`);
    }
    let filled = into.filled ? target.length : 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (ended.aborted) break;
      target.set(chunk, filled);
      filled += chunk.length;
    }
    if (filled < target.length) {
      throw new FileError('connection_failed', 'transfer', `${key}: the server sent ${filled} of ${target.length} bytes`);
    }
  }

  return {
    identity,
    parallelReads: 4,
    read(offset, target) {
      if (target.length === 0) return Promise.resolve();
      const reading = fill(offset, target)
        .catch((error) => Promise.reject(fail(error, 'transfer')))
        .finally(() => reads.delete(reading));
      reads.add(reading);
      return reading;
    },
    async stat() {
      try {
        return identityOf(await head(key, ended));
      } catch (error) {
        throw fail(error, 'verify');
      }
    },
    async close() {
      closed.abort();
      await Promise.allSettled(reads);
    },
  };
}
