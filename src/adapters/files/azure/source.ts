import { createLifetime } from '../http/lifetime.ts';
import { otherRange, type Range, sourceFile } from '../http/source-file.ts';
import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import { fileError, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/** Opens a blob for reading. Its size and ETag are its identity, and the ETag is the condition of every further read. */
export async function openSource(store: Store, name: string, signal: AbortSignal): Promise<SourceFile> {
  const lifetime = createLifetime(name, signal, (error, step) => {
    if (step === 'open' || serverAnswer(error) !== 'BlobNotFound') return fileError(error, step, name, 'source');
    return new FileError('source_changed', step, `${name} is no longer there`);
  });
  const stat = () => identityOf(store, name, lifetime.ended);
  const identity = await lifetime.run('open', stat);
  const blob = store.blob(name);

  async function fill(range: Range, target: Uint8Array): Promise<void> {
    // One of its own for each read: it tells which request the target belongs to.
    const abortSignal = AbortSignal.any([lifetime.ended]);
    store.fill(target, abortSignal);
    const conditions = identity.version === null ? {} : { ifMatch: identity.version };
    const { contentRange } = await blob.download(range.first, target.length, { abortSignal, conditions });
    if (contentRange !== range.expected) throw otherRange(name, range, contentRange);
  }

  return sourceFile(name, identity, lifetime, { fill, stat });
}

async function identityOf(store: Store, name: string, abortSignal: AbortSignal): Promise<FileIdentity> {
  const { contentLength, etag, metadata } = await store.properties(name, abortSignal);
  // How an account with a hierarchical namespace shows a folder.
  if (metadata?.hdi_isfolder === 'true') throw new FileError('source_not_found', 'open', `${name} is a directory`);
  return { size: contentLength ?? 0, version: etag ?? null };
}
