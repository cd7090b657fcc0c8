import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { BaseLogger } from 'pino';
import { type FileLock, tryFileLock, withFileLock } from '../../file-lock.ts';
import { makeHome, openCluster } from './cluster.ts';
import { EmbeddedPostgresError } from './error.ts';
import {
  askToStop,
  type Cluster,
  isPostmasterOf,
  type Postmaster,
  readPidFile,
  runPostmaster,
  stopPostmaster,
  urlOf,
} from './postmaster.ts';

export { EmbeddedPostgresError } from './error.ts';

const WATCH_MS = 1_000;
/** Looks at a server that waits for its sessions, before it is ended: this process may stop, too. */
const STOPPING_LOOKS = 10;

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
 * the first one starts it, and the last one stops it, also if it exits without a release. If all
 * were killed, the next process takes the server over. Throws EmbeddedPostgresError, which says what
 * to do, if no server can run.
 */
export async function startEmbeddedPostgres({
  dataDir,
  logger,
  settings = {},
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const home = await makeHome(dataDir);
  const lock = join(home, 'start.lock');
  const users = join(home, 'users.lock');

  let isOurTurn = false;
  let use: FileLock | null = null;
  let opened: Cluster | null = null;

  /** Runs what only one process at a time may do. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    return withFileLock(lock, async () => {
      isOurTurn = true;
      return work().finally(() => {
        isOurTurn = false;
      });
    });
  }

  /** Stops the server as the last process of it does, but does not wait: this process exits. */
  function stopAtExit(): void {
    try {
      // Another process that has its turn takes the server over, or stops it.
      if (!isOurTurn && tryFileLock(lock, 'exclusive') === null) return;
      use?.release();
      if (opened !== null && !isUsed(users)) askToStop(opened);
    } catch {
      // It does not run.
    }
  }

  async function joinServer(): Promise<{ cluster: Cluster; server: Postmaster }> {
    const cluster = await openCluster(home, settings);
    opened = cluster;
    const server = await runPostmaster(cluster, () => isUsed(users));
    use = tryFileLock(users, 'shared');
    if (use === null)
      throw new EmbeddedPostgresError(
        `${users} is locked by a program that is not Waybill. Find it with \`fuser ${users}\`, end ` +
          'it, and start again.',
      );
    return { cluster, server };
  }

  process.once('exit', stopAtExit);
  const { cluster, server } = await inTurn(joinServer).catch((error) => {
    process.off('exit', stopAtExit);
    throw error;
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
    let stopping = 0;
    for (;;) {
      await setTimeout(WATCH_MS, undefined, { signal: released.signal, ref: false }).catch(
        () => {},
      );
      if (released.signal.aborted) return;
      const file = await readPidFile(cluster).catch(() => null);
      stopping = file?.status === 'stopping' ? stopping + 1 : 0;
      if (stopping > STOPPING_LOOKS || !(await isPostmasterOf(cluster, pid))) await revive();
    }
  }

  async function revive(): Promise<void> {
    try {
      ({ pid } = await inTurn(() => runPostmaster(cluster, () => true)));
      logger.warn({ postgres_pid: pid }, 'the embedded Postgres had ended; it runs again');
    } catch (error) {
      logger.error({ err: error }, 'the embedded Postgres has ended and does not start');
    }
  }

  async function stopWithLastUser(): Promise<void> {
    use?.release();
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
    await inTurn(stopWithLastUser);
    process.off('exit', stopAtExit);
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
