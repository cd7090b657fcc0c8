import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { createForOwner } from '../../durable-file.ts';
import { CANNOT_CONNECT_NOW, EmbeddedPostgresError } from './error.ts';

const POLL_MS = 250;
/** The back ends of a killed server need a moment to end. */
const WITHIN_MS = 5_000;

/**
 * Acquires the lock that says that a server runs on a data directory. A server and its back ends
 * inherit the open file, so the lock ends with the last of them. Postgres has a lock of its own, but
 * it ignores servers of other containers: their process ids and shared memory are invisible.
 *
 * Returns the open file, whose owner closes it. Where there is no `flock`, it is not locked. Throws
 * EmbeddedPostgresError if another server keeps the lock, or if nothing can be written.
 */
export async function acquireServerLock(file: string, data: string): Promise<FileHandle> {
  const handle = await openFor(file, data);
  try {
    const deadline = performance.now() + WITHIN_MS;
    while (!(await tryLock(handle))) {
      if (performance.now() > deadline) throw runsElsewhere(data);
      await setTimeout(POLL_MS);
    }
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Opens the first file that a start writes. */
async function openFor(file: string, data: string): Promise<FileHandle> {
  try {
    createForOwner(file, 0o600);
    return await open(file, 'a', 0o600);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EROFS' ? readOnly(data, error) : error;
  }
}

function readOnly(data: string, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `Postgres cannot run in ${data}: its file system is read-only. The system makes it so after a ` +
      'fault of the disk: see `dmesg`. Stop Waybill, repair the file system, mount it so that it ' +
      'can be written, and start again.',
    { cause },
  );
}

/** Returns false if another server has the lock. */
async function tryLock(handle: FileHandle): Promise<boolean> {
  const locking = spawn('flock', ['-n', '3'], {
    stdio: ['ignore', 'ignore', 'ignore', handle.fd],
  });
  const [code] = await once(locking, 'exit').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [null];
    throw error;
  });
  return code !== 1;
}

function runsElsewhere(data: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `A Postgres of ${data} runs where this process cannot see it, such as in another container. ` +
      'Two at once would destroy the data. Run this command in that container (docker exec), or ' +
      'stop it first. Containers that work together need DATABASE_URL.',
    { code: CANNOT_CONNECT_NOW },
  );
}
