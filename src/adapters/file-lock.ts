import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';

export interface FileLock {
  release(): void;
}

const SQLITE_BUSY = 5;
const POLL_MS = 50;

/** A lock that nobody refers to any more would be collected, and closed by that. */
const held = new Set<DatabaseSync>();

/**
 * Takes a lock on a file without waiting: one `exclusive` holder, or any number of `shared` ones. It
 * belongs to the process and ends with it, however it ends. SQLite's own file locks do the work: they
 * are the operating system's, and the only ones that Node can reach without a native add-on.
 */
export function tryFileLock(file: string, mode: 'shared' | 'exclusive'): FileLock | null {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
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

/** Runs `work` while holding the file's exclusive lock; waits for it as long as it takes. */
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
