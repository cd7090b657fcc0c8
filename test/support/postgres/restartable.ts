import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../../src/adapters/postgres/embedded/embedded.ts';
import { descendants, signal } from '../programs/process-tree.ts';

/** How a server ends. SIGINT: fast, SIGQUIT: immediately, SIGKILL: like a crash. */
export type EndBy = 'SIGINT' | 'SIGQUIT' | 'SIGKILL';

export interface RestartablePostgres {
  dataDir: string;
  url: string;
  /** Ends the server. Returns when the next one, on the same port and data, accepts connections. */
  restart(by: EndBy): Promise<void>;
  /** Freezes all its processes, or resumes them. The kernel still answers for frozen ones. */
  freeze(on: boolean): void;
  stop(): Promise<void>;
}

/** Starts a separate Postgres for a test that restarts it. Its commits survive its crashes. */
export async function startRestartablePostgres(): Promise<RestartablePostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), 'waybill-restart-'));
  await chmod(dataDir, 0o711);
  const server = await startEmbeddedPostgres({ dataDir, logger: pino({ level: 'silent' }) });
  const pidFile = join(dataDir, 'postgres', 'data', 'postmaster.pid');
  const lines = async () => (await readFile(pidFile, 'utf8').catch(() => '')).split('\n');
  const running = async () => Number((await lines())[0]);

  async function restart(by: EndBy): Promise<void> {
    const before = await running();
    process.kill(before, by);
    for (;;) {
      const [pid, , , , , , , status] = await lines();
      if (pid && Number(pid) !== before && status?.trim() === 'ready') return;
      await sleep(10);
    }
  }

  let frozen: number[] = [];
  const pid = await running();
  return {
    dataDir,
    url: server.url,
    restart,
    freeze(on) {
      // The postmaster stops first: it then starts no process, and its ended ones keep their ids.
      // When it resumes, it clears those away.
      if (on) signal(pid, 'SIGSTOP');
      if (on) frozen = [pid, ...descendants(pid)];
      for (const each of frozen) signal(each, on ? 'SIGSTOP' : 'SIGCONT');
    },
    async stop() {
      await server.release();
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
}
