import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { BaseLogger } from 'pino';
import { tryFileLock, withFileLock } from '../../file-lock.ts';
import { makeHome, openCluster } from './cluster.ts';
import { EmbeddedPostgresError } from './error.ts';
import { isPostmasterOf, readPidFile, runPostmaster, stopPostmaster, urlOf } from './postmaster.ts';

export { EmbeddedPostgresError } from './error.ts';

const WATCH_MS = 1_000;

export interface EmbeddedOptions {
  /** Created if it is missing. Contains `postgres/`: the server's data, password, log and locks. */
  dataDir: string;
  logger: Pick<BaseLogger, 'info' | 'warn' | 'error'>;
  /** Server settings that differ from the usual ones. */
  settings?: Record<string, string>;
}

export interface EmbeddedPostgres {
  /** Loopback only, with a random password. It stays the same after a restart of the server. */
  url: string;
  /** Stops the server unless another process uses it too. */
  release(): Promise<void>;
}

/**
 * Starts or joins the Postgres server of a data directory. All processes of the directory share it:
 * the first one starts it, and the last one stops it. If all were killed, the next process takes
 * the server over. Throws EmbeddedPostgresError, which says what to do, if no server can run.
 */
export async function startEmbeddedPostgres({
  dataDir,
  logger,
  settings = {},
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const home = await makeHome(dataDir);
  const lock = join(home, 'start.lock');
  const users = join(home, 'users.lock');

  const { cluster, server, use } = await withFileLock(lock, async () => {
    const cluster = await openCluster(home, settings);
    const server = await runPostmaster(cluster, () => isUsed(users));
    const use = tryFileLock(users, 'shared');
    if (use === null)
      throw new EmbeddedPostgresError(
        `${users} is locked by a program that is not Waybill. Find it with \`fuser ${users}\`, end ` +
          'it, and start again.',
      );
    return { cluster, server, use };
  });
  let { pid } = server;
  // A line has the pid of this process already.
  logger.info(
    { postgres_pid: pid, port: server.port, data: cluster.data },
    'embedded Postgres runs',
  );

  const released = new AbortController();
  const watching = watch();
  let releasing: Promise<void> | null = null;

  async function watch(): Promise<void> {
    for (;;) {
      await setTimeout(WATCH_MS, undefined, { signal: released.signal, ref: false }).catch(
        () => {},
      );
      if (released.signal.aborted) return;
      if (!(await isPostmasterOf(cluster, pid))) await revive();
    }
  }

  async function revive(): Promise<void> {
    try {
      ({ pid } = await withFileLock(lock, () => runPostmaster(cluster, () => true, server.port)));
      logger.warn({ postgres_pid: pid }, 'the embedded Postgres had ended; it runs again');
    } catch (error) {
      logger.error({ err: error }, 'the embedded Postgres has ended and does not start');
    }
  }

  async function stopWithLastUser(): Promise<void> {
    use.release();
    const alone = tryFileLock(users, 'exclusive');
    if (alone === null) return;
    try {
      // Another process may have restarted the server since the last look of this one.
      pid = (await readPidFile(cluster))?.pid ?? pid;
      await stopPostmaster(cluster, pid);
      logger.info({ postgres_pid: pid }, 'embedded Postgres stopped');
    } finally {
      alone.release();
    }
  }

  async function release(): Promise<void> {
    released.abort();
    await watching;
    await withFileLock(lock, stopWithLastUser);
  }

  return {
    url: urlOf(cluster, server.port, 'waybill'),
    release() {
      releasing ??= release();
      return releasing;
    },
  };
}

function isUsed(users: string): boolean {
  const alone = tryFileLock(users, 'exclusive');
  alone?.release();
  return alone === null;
}
