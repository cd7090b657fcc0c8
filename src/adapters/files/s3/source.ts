import type { Readable } from 'node:stream';
import { GetObjectCommand, type GetObjectCommandInput } from '@aws-sdk/client-s3';
import type { SendOptions, Target } from '../http/http.ts';
import { createLifetime } from '../http/lifetime.ts';
import { type Found, HEAD_BYTES, NO_BYTES, otherRange, type Range, sizeOf, sourceFile } from '../http/source-file.ts';
import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

interface Described {
  ContentLength?: number | undefined;
  ETag?: string | undefined;
  LastModified?: Date | undefined;
}

/** Opens an object for reading. Its size and ETag are its identity, and the condition of every further read. */
export async function openSource(store: Store, key: string, signal: AbortSignal): Promise<SourceFile> {
  const lifetime = createLifetime(key, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'NoSuchKey') return fileError(error, step, key, 'source');
    return new FileError('source_changed', step, `${key} is no longer there`);
  });

  async function get(bytes: Uint8Array, input: Omit<GetObjectCommandInput, 'Bucket' | 'Key'>) {
    const target: Target = { bytes, filled: null };
    const options: SendOptions = { abortSignal: lifetime.ended, target };
    const { Body, ...answer } = await store.s3.send(new GetObjectCommand({ Bucket: store.settings.bucket, Key: key, ...input }), options);
    return { ...answer, body: Body as Readable, filled: target.filled };
  }

  async function look(): Promise<Found> {
    const bytes = Buffer.allocUnsafeSlow(HEAD_BYTES);
    const answer = await get(bytes, { Range: `bytes=0-${HEAD_BYTES - 1}` }).catch((error) => {
      // Nothing is in the range of an empty object.
      if (serverAnswer(error) === 'InvalidRange') return null;
      throw error;
    });
    const size = answer && sizeOf(answer.ContentRange, answer.ContentLength ?? null);
    if (answer === null || size === null) {
      answer?.body.destroy();
      return { identity: await stat(), head: NO_BYTES };
    }
    const identity = identityOf({ ...answer, ContentLength: size });
    // What breaks off here is read again, by its range.
    const filled = answer.filled ?? (await readInto(answer.body, bytes).catch(() => 0));
    return { identity, head: filled === answer.ContentLength ? bytes.subarray(0, filled) : NO_BYTES };
  }

  async function stat(): Promise<FileIdentity> {
    return identityOf(await store.head(key, lifetime.ended));
  }

  const opened = await lifetime.run('open', look);
  const { version } = opened.identity;
  // No condition can be made of a weak ETag, nor of a time.
  const condition = version?.startsWith('"') ? { IfMatch: version } : {};

  async function fill({ first, last, expected }: Range, target: Uint8Array): Promise<void> {
    const { body, filled, ContentLength, ContentRange } = await get(target, { Range: `bytes=${first}-${last}`, ...condition });
    if (ContentRange !== expected || ContentLength !== target.length) {
      body.destroy();
      throw otherRange(key, { first, last, expected }, ContentRange);
    }
    const read = filled ?? (await readInto(body, target));
    if (read < target.length) {
      throw new FileError('connection_failed', 'transfer', `${key}: the server sent ${read} of ${target.length} bytes`);
    }
  }

  /** Gives how many bytes came. */
  async function readInto(body: Readable, target: Uint8Array): Promise<number> {
    let filled = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (lifetime.ended.aborted) break;
      target.set(chunk, filled);
      filled += chunk.length;
    }
    return filled;
  }

  return sourceFile(key, opened, lifetime, { fill, stat });
}

function identityOf({ ContentLength, ETag, LastModified }: Described): FileIdentity {
  return { size: ContentLength ?? 0, version: ETag ?? LastModified?.toISOString() ?? null };
}
