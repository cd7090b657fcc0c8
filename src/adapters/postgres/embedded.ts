import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, open, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { BaseLogger } from 'pino';
import { tryFileLock, withFileLock } from '../file-lock.ts';
import { type Account, accountFor, canRun } from './embedded/account.ts';
import { binariesIn, copyPostgres, installedPostgres } from './embedded/binaries.ts';
import { EmbeddedPostgresError } from './embedded/error.ts';
import { type Cluster, isAlive, postgresEnvironment, runPostmaster, stopPostmaster, urlOf } from './embedded/postmaster.ts';

export { EmbeddedPostgresError } from './embedded/error.ts';

const MAJOR_VERSION = '18';
const WATCH_MS = 1_000;

export interface EmbeddedOptions {
  /** Created where there is none. Holds `postgres/` with the server's data, password, log and locks. */
  dataDir: string;
  logger: Pick<BaseLogger, 'info' | 'warn' | 'error'>;
  /** Server settings that differ from the usual ones. */
  settings?: Record<string, string>;
}

export interface EmbeddedPostgres {
  /** Loopback only, with a random password. Stays the same when the server has to be started again. */
  url: string;
  /** Stops the server unless another process uses it too. */
  release(): Promise<void>;
}

/**
 * The Postgres server of a data directory, shared by all processes that ask for it: the first starts it,
 * the last stops it. A server whose users were killed is taken over by the next one. Throws
 * EmbeddedPostgresError, which says what to do, where none can run.
 */
export async function startEmbeddedPostgres({ dataDir, logger, settings = {} }: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const home = await makeHome(dataDir);
  const lock = join(home, 'start.lock');
  const users = join(home, 'users.lock');

  const { cluster, server, use } = await withFileLock(lock, async () => {
    const cluster = await openCluster(home, settings);
    const server = await runPostmaster(cluster);
    const use = tryFileLock(users, 'shared');
    if (use === null) throw new EmbeddedPostgresError(`${users} is locked by a program that is not Waybill.`);
    return { cluster, server, use };
  });
  logger.info({ pid: server.pid, port: server.port, data: cluster.data }, 'embedded Postgres runs');

  let { pid } = server;
  let work = Promise.resolve();
  const watch = setInterval(() => {
    if (isAlive(pid)) return;
    work = work.then(revive);
  }, WATCH_MS).unref();

  async function revive(): Promise<void> {
    try {
      const revived = await withFileLock(lock, () => runPostmaster(cluster, server.port));
      if (revived.pid !== pid) logger.warn({ pid: revived.pid }, 'embedded Postgres had ended and was started again');
      pid = revived.pid;
    } catch (error) {
      logger.error({ err: error }, 'embedded Postgres has ended and does not start');
    }
  }

  async function stopWithLastUser(): Promise<void> {
    use.release();
    const alone = tryFileLock(users, 'exclusive');
    if (alone === null) return;
    try {
      await stopPostmaster(cluster, pid);
      logger.info({ pid }, 'embedded Postgres stopped');
    } finally {
      alone.release();
    }
  }

  let released: Promise<void> | null = null;
  return {
    url: urlOf(cluster, server.port, 'waybill'),
    release() {
      clearInterval(watch);
      released ??= work.then(() => withFileLock(lock, stopWithLastUser));
      return released;
    },
  };
}

async function makeHome(dataDir: string): Promise<string> {
  const home = join(dataDir, 'postgres');
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await mkdir(home, { recursive: true, mode: 0o700 });
    return await realpath(home);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new EmbeddedPostgresError(
      `The data folder ${dataDir} can't be used (${code}). Make it writable for this user, or set WAYBILL_DATA_DIR or DATABASE_URL.`,
      { cause: error },
    );
  }
}

async function openCluster(home: string, settings: Record<string, string>): Promise<Cluster> {
  const account = await accountFor(home);
  let folder = await installedPostgres(join(home, 'program'));
  if (!(await canRun(account, [binariesIn(folder).postgres, '--version']))) folder = await copyPostgres(folder, join(home, 'program'));
  const binaries = binariesIn(folder);

  const data = join(home, 'data');
  const version = await readFile(join(data, 'PG_VERSION'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (version === null) await initialise(home, data, binaries.initdb, account);
  else if (version.trim() !== MAJOR_VERSION) {
    throw new EmbeddedPostgresError(
      `${data} was made by Postgres ${version.trim()}; this version of Waybill brings Postgres ${MAJOR_VERSION}. ` +
        `Move the data over with pg_upgrade or pg_dump, or set DATABASE_URL to a Postgres ${version.trim()} that serves it.`,
    );
  }
  const password = await readFile(join(data, 'waybill.password'), 'utf8');
  return { data, log: join(home, 'log'), password, program: binaries.postgres, account, settings };
}

/** Made under another name and renamed when it is whole, so that an interrupted start leaves no half cluster. */
async function initialise(home: string, data: string, initdb: string, account: Account): Promise<void> {
  const halves = (await readdir(home)).filter((name) => name.startsWith('new-'));
  await Promise.all(halves.map((name) => rm(join(home, name), { recursive: true, force: true, maxRetries: 10 })));
  const half = join(home, `new-${randomBytes(4).toString('hex')}`);
  const passwordFile = `${half}.password`;
  await writeFile(passwordFile, randomBytes(32).toString('base64url'), { mode: 0o600 });
  if (account.uid !== undefined && account.gid !== undefined) await chown(passwordFile, account.uid, account.gid);
  const [program = '', ...args] = [
    ...account.prefix,
    initdb,
    ...['-D', half, '-U', 'waybill', '--pwfile', passwordFile, '--auth=scram-sha-256', '--encoding=UTF8'],
    ...['--no-locale', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
  ];
  try {
    await promisify(execFile)(program, args, { uid: account.uid, gid: account.gid, env: postgresEnvironment() });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new EmbeddedPostgresError(`A Postgres cluster can't be made in ${home}: ${(stderr || String(error)).trim()}`, { cause: error });
  }
  await chmod(half, 0o700);
  await rename(passwordFile, join(half, 'waybill.password'));
  await rename(half, data);
  const folder = await open(home, 'r');
  await folder.sync();
  await folder.close();
}
