import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { createForOwner } from './durable-file.ts';

export interface FileLock {
  release(): void;
}

const SQLITE_BUSY = 5;
const POLL_MS = 50;

/**
 * Keeps a reference to each lock. Otherwise the garbage collector would close its database and
 * release the lock.
 */
const held = new Set<DatabaseSync>();

/**
 * Acquires a lock on a file without waiting: one `exclusive` holder, or any number of `shared`
 * ones. Returns null if it is held. The lock belongs to the process and ends with it, even after a
 * crash. It uses SQLite's file locks: they are locks of the operating system, and the only ones
 * that Node can use without a native add-on.
 */
export function tryFileLock(file: string, mode: 'shared' | 'exclusive'): FileLock | null {
  createForOwner(file, 0o644);
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // SQLite would store a journal on the disk, which may be full.
    database.exec('pragma journal_mode = memory');
    database.exec(mode === 'exclusive' ? 'begin exclusive' : 'begin; select 1 from sqlite_schema');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null;
    throw error;
  }
  held.add(database);
  return {
    release() {
      if (held.delete(database)) database.close();
    },
  };
}

/** Runs `work` while it holds the file's exclusive lock. Waits for the lock without a limit. */
export async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  let lock = tryFileLock(file, 'exclusive');
  while (lock === null) {
    await setTimeout(POLL_MS);
    lock = tryFileLock(file, 'exclusive');
  }
  try {
    return await work();
  } finally {
    lock.release();
  }
}
