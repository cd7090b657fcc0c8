import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { connect } from '../../src/adapters/postgres/connect.ts';
import { startEmbeddedPostgres } from '../../src/adapters/postgres/embedded/embedded.ts';
import type { Bench } from './bench.ts';
import { cpuSeconds } from './usage.ts';

export interface BenchPostgres {
  /** Creates an empty database and returns its URL. */
  createDatabase(name: string): Promise<string>;
  /** CPU seconds of the server with all its processes; null for a server that is not ours. */
  cpuSeconds(): number | null;
  /** The file of the server's log; null for a server that is not ours. */
  log: string | null;
}

/** Starts the Postgres that the service brings, on disk; or uses that of BENCH_DATABASE_URL. */
export async function startPostgres(bench: Bench): Promise<BenchPostgres> {
  const given = process.env.BENCH_DATABASE_URL;
  const server = given ? { url: given, pid: null, log: null } : await startOwn(bench);
  return {
    log: server.log,
    cpuSeconds: () => (server.pid === null ? null : cpuSeconds(server.pid)),
    async createDatabase(name) {
      const unique = `waybill_bench_${name}_${process.pid}`;
      await command(server.url, (sql) => sql`create database ${sql(unique)}`);
      bench.defer(() =>
        command(server.url, (sql) => sql`drop database ${sql(unique)} with (force)`),
      );
      const url = new URL(server.url);
      url.pathname = unique;
      return url.href;
    },
  };
}

async function startOwn({ folder, options, defer }: Bench) {
  const settings: Record<string, string> = options.profile
    ? { log_min_duration_statement: '0' }
    : {};
  const { url, release } = await startEmbeddedPostgres({
    dataDir: folder,
    logger: pino({ level: 'silent' }),
    settings,
  });
  defer(release);
  const pid = Number(
    readFileSync(join(folder, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0],
  );
  return { url, pid, log: join(folder, 'postgres/log') };
}

async function command(
  url: string,
  run: (sql: ReturnType<typeof connect>) => Promise<unknown>,
): Promise<void> {
  const sql = connect(url, { max: 1 });
  await run(sql).finally(() => sql.end());
}
