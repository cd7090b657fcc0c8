import { createLifetime } from '../http/lifetime.ts';
import { type Found, HEAD_BYTES, NO_BYTES, otherRange, type Range, sizeOf, sourceFile } from '../http/source-file.ts';
import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

interface Described {
  contentLength?: number | undefined;
  etag?: string | undefined;
  metadata?: Record<string, string> | undefined;
}

/** Opens a blob for reading. Its size and ETag are its identity, and the ETag is the condition of every further read. */
export async function openSource(store: Store, name: string, signal: AbortSignal): Promise<SourceFile> {
  const lifetime = createLifetime(name, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'BlobNotFound') return fileError(error, step, name, 'source');
    return new FileError('source_changed', step, `${name} is no longer there`);
  });
  const blob = store.blob(name);

  function get(first: number, target: Uint8Array, conditions: { ifMatch?: string }) {
    // One of its own for each read: it tells which request the target belongs to.
    const abortSignal = AbortSignal.any([lifetime.ended]);
    store.fill(target, abortSignal);
    return blob.download(first, target.length, { abortSignal, conditions });
  }

  async function look(): Promise<Found> {
    const bytes = Buffer.allocUnsafeSlow(HEAD_BYTES);
    const answer = await get(0, bytes, {}).catch((error) => {
      // Nothing is in the range of an empty blob.
      if (serverAnswer(error) === 'InvalidRange') return null;
      throw error;
    });
    const length = answer?.contentLength ?? null;
    const size = answer && sizeOf(answer.contentRange, length);
    if (answer === null || size === null || length === null) return { identity: await stat(), head: NO_BYTES };
    const { etag, metadata } = answer;
    return { identity: identityOf(name, { contentLength: size, etag, metadata }), head: bytes.subarray(0, length) };
  }

  async function stat(): Promise<FileIdentity> {
    return identityOf(name, await store.properties(name, lifetime.ended));
  }

  const opened = await lifetime.run('open', look);
  const { version } = opened.identity;

  async function fill(range: Range, target: Uint8Array): Promise<void> {
    const { contentRange, contentLength } = await get(range.first, target, version === null ? {} : { ifMatch: version });
    if (contentRange !== range.expected) throw otherRange(name, range, contentRange);
    if (contentLength !== target.length) {
      throw new FileError('connection_failed', 'transfer', `${name}: the server sent ${contentLength} of ${target.length} bytes`);
    }
  }

  return sourceFile(name, opened, lifetime, { fill, stat });
}

function identityOf(name: string, { contentLength, etag, metadata }: Described): FileIdentity {
  // How an account with a hierarchical namespace shows a folder.
  if (metadata?.hdi_isfolder === 'true') throw new FileError('source_not_found', 'open', `${name} is a directory`);
  return { size: contentLength ?? 0, version: etag ?? null };
}
