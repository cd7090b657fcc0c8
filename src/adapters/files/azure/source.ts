import { abortError } from '../abort.ts';
import { FileError, type FileIdentity, type FileStep, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/** Opens a blob for reading. Its size and ETag are its identity, and the ETag is the condition of every further read. */
export async function openSource(store: Store, name: string, signal: AbortSignal): Promise<SourceFile> {
  try {
    return sourceFile(store, name, await identityOf(store, name, signal), signal);
  } catch (error) {
    throw signal.aborted ? abortError(signal, 'open') : fileError(error, 'open', name, 'source');
  }
}

async function identityOf(store: Store, name: string, abortSignal: AbortSignal): Promise<FileIdentity> {
  const { contentLength, etag, metadata } = await store.properties(name, abortSignal);
  // How an account with a hierarchical namespace shows a folder.
  if (metadata?.hdi_isfolder === 'true') throw new FileError('source_not_found', 'open', `${name} is a directory`);
  return { size: contentLength ?? 0, version: etag ?? null };
}

function sourceFile(store: Store, name: string, identity: FileIdentity, signal: AbortSignal): SourceFile {
  const blob = store.blob(name);
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);
  const reads = new Set<Promise<void>>();

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed.signal.aborted) return new FileError('connection_failed', step, `${name} was closed`);
    if (serverAnswer(error) === 'BlobNotFound') return new FileError('source_changed', step, `${name} is no longer there`);
    return fileError(error, step, name, 'source');
  }

  async function fill(offset: number, target: Uint8Array): Promise<void> {
    const last = offset + target.length - 1;
    if (last >= identity.size) throw new FileError('source_changed', 'transfer', `${name} has ${identity.size} bytes`);
    const range = `bytes ${offset}-${last}/${identity.size}`;
    // One of its own for each read: it tells which request the target belongs to.
    const abortSignal = AbortSignal.any([ended]);
    store.fill(target, abortSignal);
    const conditions = identity.version === null ? {} : { ifMatch: identity.version };
    const { contentRange } = await blob.download(offset, target.length, { abortSignal, conditions });
    if (contentRange !== range) {
      throw new FileError('source_changed', 'transfer', `${name}: asked for ${range}, the server sends ${contentRange ?? 'no range'}`);
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
        return await identityOf(store, name, ended);
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
