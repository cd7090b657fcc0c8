import { abortError } from '../abort.ts';
import { fromFtp, type UnixTime } from '../modification-time.ts';
import { FileError, type FileIdentity, type FileStep, type SourceFile } from '../port.ts';
import { type Download, startDownload } from './download.ts';
import { fileError, statError } from './errors.ts';
import type { Lease, Pool } from './pool.ts';
import { statOf } from './stat.ts';

/** Opens a file for reading. Its identity is its size and modification time at this moment. */
export async function openSource(
  pool: Pool,
  path: string,
  signal: AbortSignal,
): Promise<SourceFile> {
  try {
    const identity = await identify(pool, path, signal, 'open');
    return sourceFile(pool, { path, identity, modifiedAt: fromFtp(identity.version), signal });
  } catch (error) {
    throw statError(error, 'open', path);
  }
}

async function identify(
  pool: Pick<Pool, 'use'>,
  path: string,
  signal: AbortSignal,
  step: FileStep,
): Promise<FileIdentity> {
  const { type, size, version } = await pool.use(signal, step, (connection) =>
    statOf(connection, path),
  );
  if (type === 'directory') throw new FileError('source_not_found', step, `${path} is a directory`);
  return { size, version };
}

interface Opened {
  path: string;
  identity: FileIdentity;
  modifiedAt: UnixTime | null;
  signal: AbortSignal;
}

/**
 * Opens a file of a known size that no other program changes, on the connection of a lease. The
 * caller ends the lease.
 */
export function openKnown(
  lease: Omit<Lease, 'release'>,
  path: string,
  { size, signal }: { size: number; signal: AbortSignal },
): SourceFile {
  const borrowed = { ...lease, release: () => {} };
  const pool: Pick<Pool, 'acquireFor' | 'use'> = {
    acquireFor: (_, work) => work(borrowed),
    use: (_, _step, work) => work(lease.connection),
  };
  const identity = { size, version: null };
  return sourceFile(pool, { path, identity, modifiedAt: null, signal });
}

/** Creates the source file. It holds a connection only from its first byte to its last. */
export function sourceFile(
  pool: Pick<Pool, 'acquireFor' | 'use'>,
  { path, identity, modifiedAt, signal }: Opened,
): SourceFile {
  let lease: Lease | null = null;
  let download: Download | null = null;
  let reading: Promise<void> | null = null;
  let closing: Promise<void> | null = null;
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);
  const abandon = () => lease?.abandon();
  signal.addEventListener('abort', abandon, { once: true });

  async function fill(offset: number, target: Uint8Array): Promise<void> {
    if (closing !== null)
      throw new FileError('connection_failed', 'transfer', `${path} was closed`);
    let step: FileStep = 'transfer';
    try {
      if (download?.position === offset) await readOn(download, target);
      else {
        await stop();
        await pool.acquireFor(ended, async (taken) => {
          lease = taken;
          step = 'open';
          const started = await startDownload(taken.connection, path, offset);
          download = started;
          step = 'transfer';
          // A server may reject the data connection after it has announced the file.
          await readOn(started, target).catch(async (error) => {
            await started.cancel();
            throw error;
          });
        });
      }
      if (download?.position === identity.size) release();
    } catch (error) {
      throw signal.aborted ? abortError(signal, step) : fileError(error, step, path);
    }
  }

  async function readOn(from: Download, target: Uint8Array): Promise<void> {
    await from.read(target);
    if (from.position === identity.size) await from.finish();
  }

  /**
   * Returns whether the server sends bytes of a file that it calls empty. Linux generates the files
   * in `/proc` while they are read. ProFTPD sends no byte of them, so it looks like an empty file.
   */
  async function sendsMore(): Promise<boolean> {
    if (identity.size > 0) return false;
    try {
      await fill(0, new Uint8Array(0));
      return false;
    } catch (error) {
      if (error instanceof FileError && error.code === 'source_changed') return true;
      throw error;
    }
  }

  async function stop(): Promise<void> {
    await download?.cancel();
    release();
  }

  function release(): void {
    lease?.release();
    lease = null;
    download = null;
  }

  /** Resolves when nothing writes into the caller's buffer any more. */
  async function end(): Promise<void> {
    closed.abort();
    signal.removeEventListener('abort', abandon);
    if (reading !== null) lease?.abandon();
    await reading?.catch(() => {});
    await stop();
  }

  return {
    identity,
    modifiedAt,
    parallelReads: 1,
    readAtOnce: false,
    async read(offset, target) {
      // `stat` reads an empty file.
      if (target.length === 0) return;
      reading = fill(offset, target).finally(() => {
        reading = null;
      });
      await reading;
    },
    async stat() {
      try {
        await stop();
        const hasMore = await sendsMore();
        const found = await identify(pool, path, signal, 'verify');
        if (!hasMore || found.size > 0) return found;
        const message = `${path}: the server reports 0 bytes and sends more`;
        throw new FileError('size_unknown', 'verify', message);
      } catch (error) {
        const failure = statError(error, 'verify', path);
        if (failure.code === 'source_not_found')
          throw new FileError('source_changed', 'verify', `${path} is no longer there`);
        throw failure;
      }
    },
    close() {
      closing ??= end();
      return closing;
    },
  };
}
