import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { makeHome, openCluster } from '../../src/adapters/postgres/embedded/cluster.ts';
import {
  runPostmaster,
  stopPostmaster,
  urlOf,
} from '../../src/adapters/postgres/embedded/postmaster.ts';
import { descendants } from '../support/programs/process-tree.ts';

export interface ChaosPostgres {
  host: string;
  port: number;
  /** Directly to the server, without a proxy. */
  url: string;
  /** Fast shutdown: ends sessions, loses nothing. */
  stop(): Promise<void>;
  /** SIGKILL to the postmaster, as the kernel sends it when memory runs out. */
  kill(): void;
  /** Starts the server on the same port; returns when it answers. */
  start(): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** SIGKILL to one back end: the postmaster then ends all sessions and recovers from its WAL. */
  killBackend(choose: (count: number) => number): Promise<boolean>;
  /** Calls `pg_terminate_backend` for sessions for which `chosen` is true. Returns how many. */
  terminateBackends(chosen: () => boolean): Promise<number>;
  /** Runs one statement on its own connection. */
  query<Row extends object>(text: string): Promise<Row[]>;
  close(): Promise<void>;
}

/** Enough for the pools of nine processes. */
const SETTINGS = { max_connections: '500' };

/**
 * Starts a separate Postgres for the run, with the settings of the embedded one: it commits to
 * disk.
 */
export async function startChaosPostgres(): Promise<ChaosPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-chaos-postgres-'));
  chmodSync(folder, 0o711);
  const cluster = await openCluster(await makeHome(folder), SETTINGS);
  let { pid, port } = await runPostmaster(cluster, () => false);
  let running = true;
  let frozen: number[] = [];
  const url = urlOf(cluster, port, 'waybill');
  const killAtExit = () => running && signal([pid], 'SIGKILL');
  process.once('exit', killAtExit);

  async function query<Row extends object>(text: string): Promise<Row[]> {
    const sql = postgres(url, { max: 1, connect_timeout: 5, onnotice: () => undefined });
    try {
      return await sql.unsafe<Row[]>(text);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }

  const sessions = () =>
    query<{ pid: number }>(
      `select pid from pg_stat_activity
        where datname = 'waybill' and pid <> pg_backend_pid() order by pid`,
    );

  async function stop(): Promise<void> {
    thaw();
    await stopPostmaster(cluster, pid);
    running = false;
  }

  function thaw(): void {
    signal(frozen.splice(0).toReversed(), 'SIGCONT');
  }

  return {
    host: '127.0.0.1',
    port,
    url,
    stop,
    kill() {
      signal([pid], 'SIGKILL');
      running = false;
    },
    async start() {
      ({ pid, port } = await runPostmaster(cluster, () => true));
      running = true;
    },
    freeze() {
      frozen = [pid, ...descendants(pid)];
      signal(frozen, 'SIGSTOP');
    },
    thaw,
    async killBackend(choose) {
      const found = await sessions();
      const chosen = found[choose(found.length)];
      if (chosen) signal([chosen.pid], 'SIGKILL');
      return chosen !== undefined;
    },
    async terminateBackends(chosen) {
      const pids = (await sessions()).filter(chosen).map((session) => session.pid);
      if (pids.length > 0)
        await query(
          `select pg_terminate_backend(pid) from unnest(array[${pids.join(',')}]) as pid`,
        );
      return pids.length;
    },
    query,
    async close() {
      if (running) await stop();
      process.off('exit', killAtExit);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function signal(pids: number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
