import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import {
  access,
  chown,
  constants,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { syncFolder } from '../../durable-file.ts';
import { makeFolder } from '../../make-folder.ts';
import { type Account, accountFor, canRun } from './account.ts';
import { binariesIn, copyPostgres, installedPostgres } from './binaries.ts';
import { EmbeddedPostgresError } from './error.ts';
import { type Cluster, postgresEnvironment } from './postmaster.ts';

const MAJOR_VERSION = '18';

/**
 * Creates the folder in `dataDir` for all files of Postgres and returns its path. Throws
 * EmbeddedPostgresError if it can't be used.
 */
export async function makeHome(dataDir: string): Promise<string> {
  const home = join(dataDir, 'postgres');
  const self = process.getuid?.();
  try {
    await makeFolder(home);
    const { uid } = await stat(home);
    if (uid === self || self === 0) {
      // Also root can't write to a file system that is read-only.
      await access(home, constants.W_OK);
      return await realpath(home);
    }
    throw new EmbeddedPostgresError(
      `${home} belongs to user ${uid}, but this process runs as user ${self}. ` +
        'Run as that user, or set WAYBILL_DATA_DIR to a folder of your own.',
    );
  } catch (error) {
    if (error instanceof EmbeddedPostgresError) throw error;
    throw unusableDataFolder(dataDir, error);
  }
}

/**
 * Returns whether a complete cluster is in the data folder. True also if this process cannot look
 * into the folder: an attempt to use it says why.
 */
export function hasCluster(dataDir: string): boolean {
  try {
    return statSync(join(dataDir, 'postgres', 'data'), { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}

/** Returns the error for a data folder in which nothing can be created. */
export function unusableDataFolder(dataDir: string, cause: unknown): EmbeddedPostgresError {
  const { code } = cause as NodeJS.ErrnoException;
  return new EmbeddedPostgresError(
    `The data folder ${dataDir} can't be used (${code}). ` +
      'Make it writable for this user, or set WAYBILL_DATA_DIR or DATABASE_URL.',
    { cause },
  );
}

/**
 * Opens the cluster in `home`, and creates it if there is none. Only one process may call this at a
 * time. Throws EmbeddedPostgresError.
 */
export async function openCluster(
  home: string,
  settings: Record<string, string>,
): Promise<Cluster> {
  const account = await accountFor(home);
  let folder = await installedPostgres(join(home, 'program'));
  if (!(await canRun(account, [binariesIn(folder).postgres, '--version'])))
    folder = await copyPostgres(folder, join(home, 'program'));
  const binaries = binariesIn(folder);

  const data = join(home, 'data');
  const version = await readFile(join(data, 'PG_VERSION'), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    },
  );
  if (version === null) await initialise(home, data, binaries.initdb, account);
  else if (version.trim() !== MAJOR_VERSION) {
    throw new EmbeddedPostgresError(
      `${data} was created by Postgres ${version.trim()}; ` +
        `this version of Waybill includes Postgres ${MAJOR_VERSION}. ` +
        'Move the data with pg_upgrade or pg_dump, ' +
        `or set DATABASE_URL to a Postgres ${version.trim()} that serves it.`,
    );
  }
  const password = await readFile(join(data, 'waybill.password'), 'utf8');
  return { data, log: join(home, 'log'), password, program: binaries.postgres, account, settings };
}

/**
 * Creates the cluster under another name and renames it when it is complete, so that an interrupted
 * start leaves no incomplete cluster.
 */
async function initialise(
  home: string,
  data: string,
  initdb: string,
  account: Account,
): Promise<void> {
  await removeIncomplete(home);
  const temporary = join(home, `new-${randomBytes(4).toString('hex')}`);
  const passwordFile = `${temporary}.password`;
  const [program = '', ...args] = [
    ...account.prefix,
    initdb,
    ...[
      '-D',
      temporary,
      '-U',
      'waybill',
      '--pwfile',
      passwordFile,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
    ],
    ...['--no-locale', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
  ];
  try {
    await writeFile(passwordFile, randomBytes(32).toString('base64url'), {
      mode: 0o600,
      flush: true,
    });
    if (account.uid !== undefined && account.gid !== undefined)
      await chown(passwordFile, account.uid, account.gid);
    await promisify(execFile)(program, args, {
      uid: account.uid,
      gid: account.gid,
      env: postgresEnvironment(),
    });
  } catch (error) {
    await removeIncomplete(home).catch(() => undefined);
    const { stderr } = error as { stderr?: string };
    throw new EmbeddedPostgresError(
      `Creating a Postgres cluster in ${home} failed: ${(stderr || String(error)).trim()}`,
      { cause: error },
    );
  }
  await rename(passwordFile, join(temporary, 'waybill.password'));
  await syncFolder(temporary);
  await rename(temporary, data);
  await syncFolder(home);
}

/** Removes what an interrupted start left, or one whose disk was full. */
async function removeIncomplete(home: string): Promise<void> {
  const incomplete = (await readdir(home)).filter((name) => name.startsWith('new-'));
  await Promise.all(
    incomplete.map((name) =>
      rm(join(home, name), { recursive: true, force: true, maxRetries: 10 }),
    ),
  );
}
