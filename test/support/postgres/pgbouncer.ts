import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../network/free-port.ts';
import { debianPackages } from '../programs/debian.ts';
import { accepts, startProcess } from '../programs/server-process.ts';

const PROGRAM = '/usr/sbin/pgbouncer';
const packages = debianPackages(['pgbouncer'], [PROGRAM]);

export interface PgBouncerOptions {
  mode: 'session' | 'transaction';
  /** Settings of a session that it drops, comma-separated. It rejects further ones. */
  ignored: string;
}

export interface PgBouncer {
  url: string;
  stop(): Promise<void>;
}

/** Null if PgBouncer can run here, else the reason. */
export async function whyNoPgBouncer(): Promise<string | null> {
  const programs = await packages;
  return programs.available ? null : programs.reason;
}

/** Starts a real PgBouncer in front of the database of this URL. */
export async function startPgBouncer(
  databaseUrl: string,
  { mode, ignored }: PgBouncerOptions,
): Promise<PgBouncer> {
  const programs = await packages;
  if (!programs.available) throw new Error(programs.reason);
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-pgbouncer-')));
  chmodSync(home, 0o755);
  const target = new URL(databaseUrl);
  const port = await freePort();
  const settings = [
    '[databases]',
    `* = host=${target.hostname} port=${target.port} user=${target.username} ` +
      `password=${decodeURIComponent(target.password)}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${mode}`,
    ...(ignored === '' ? [] : [`ignore_startup_parameters = ${ignored}`]),
    ...(process.getuid?.() === 0 ? ['user = nobody'] : []),
  ];
  const file = join(home, 'pgbouncer.ini');
  writeFileSync(file, `${settings.join('\n')}\n`);
  const server = startProcess([programs.path(PROGRAM), '-q', file], { env: programs.env });
  if (!(await server.ready(() => accepts(port)))) throw new Error('PgBouncer does not start');
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${port}`;
  return {
    url: url.href,
    async stop() {
      await server.kill();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
