import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { appendFile, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createForOwner } from '../../durable-file.ts';
import { connect } from '../connect.ts';
import type { Account } from './account.ts';
import { CANNOT_CONNECT_NOW, DISK_FULL, EmbeddedPostgresError } from './error.ts';
import { acquireServerLock } from './server-lock.ts';

const POLL_MS = 20;
/** A server that reports ready, but accepts no connection for this long, is stopped. */
const UNRESPONSIVE_MS = 5_000;
/** How long a fast shutdown may take before an immediate shutdown. */
const FAST_SHUTDOWN_MS = 15_000;
const IMMEDIATE_SHUTDOWN_MS = 10_000;
/**
 * SIGTERM lets a server accept no new sessions, and wait for the end of those that it has. Pools keep
 * theirs for ever.
 */
const STOPPING_MS = 5_000;
const START_ATTEMPTS = 20;
/** A server writes its process id as soon as it has created postmaster.pid. */
const PID_WRITTEN_WITHIN_MS = 1_000;
/** SQLSTATE of a running server that has no free connection. */
const TOO_MANY_CONNECTIONS = '53300';
const LOG_LIMIT_BYTES = 10_000_000;
/**
 * What a server logs before it ends because its disk is full, or because its quota is used up. It
 * does not log why the checkpoint after a recovery fails.
 */
const FULL = /No space left on device|Disk quota exceeded|checkpoint request failed/;
/** Numbers of the system for the same. Node has no code for a quota. */
const NO_ROOM = [constants.errno.ENOSPC, constants.errno.EDQUOT];

const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '1GB',
  // Nothing copies this server's log of writes, so a new index need not be in it.
  wal_level: 'minimal',
  max_wal_senders: '0',
  // Most reads are of pages that the system has in memory. Each would wake another process.
  io_method: 'sync',
  // The queries are short, and some packages lack the compiler's library.
  jit: 'off',
  autovacuum_naptime: '15s',
  TimeZone: 'UTC',
  log_timezone: 'UTC',
  // The client gets and reports all errors. Their details would write row contents to this file.
  log_min_messages: 'log',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};

export interface Cluster {
  /** The data directory, as an absolute path without links. */
  data: string;
  log: string;
  password: string;
  /** Path of the `postgres` program. */
  program: string;
  account: Account;
  /** Settings that override the defaults. */
  settings: Record<string, string>;
}

interface PidFile {
  pid: number;
  port: number;
  status: string;
}

/** A running server's process id and port. */
export interface Postmaster {
  pid: number;
  port: number;
}

export function urlOf(cluster: Cluster, port: number, database: string): string {
  return `postgres://waybill:${cluster.password}@127.0.0.1:${port}/${database}`;
}

/**
 * Returns the healthy server of this data directory: the running one, else a new one. That has the
 * port of the one before if it is `inUse`: the other processes know no other port. A running server
 * that does not answer is stopped, unless it is `inUse`, or was asked to stop. The caller must hold
 * the lock: only one process may do this at a time.
 */
export async function runPostmaster(cluster: Cluster, inUse: () => boolean): Promise<Postmaster> {
  const running = await readPidFile(cluster);
  if (running !== null && (await isPostmasterOf(cluster, running.pid))) {
    const answering = await waitForAnswer(cluster, running.pid);
    if (answering !== null) return answering;
    if (inUse() && (await isPostmasterOf(cluster, running.pid)))
      throw new EmbeddedPostgresError(
        `The Postgres of ${cluster.data} (process ${running.pid}) is in use by other processes, but ` +
          `does not answer. Its log is ${cluster.log}. If it does not recover, stop all Waybill ` +
          'processes of this data folder, and start again.',
        { code: CANNOT_CONNECT_NOW },
      );
    await stopPostmaster(cluster, running.pid);
  }
  const lock = await acquireServerLock(join(dirname(cluster.data), 'server.lock'), cluster.data);
  try {
    // Another program has the process id now, or a crash of the machine lost what the file said.
    // Postgres would take it for that of a server, and refuse to start.
    const misleads = running === null ? await isOld(pidFilePath(cluster)) : isAlive(running.pid);
    if (misleads) await rm(pidFilePath(cluster), { force: true });
    return await start(cluster, lock.fd, inUse() ? await lastPort(cluster) : null);
  } finally {
    await lock.close();
  }
}

/** Stops the server within seconds. Open transactions are rolled back. */
export async function stopPostmaster(cluster: Cluster, pid: number): Promise<void> {
  for (const [signal, patience] of [
    ['SIGINT', FAST_SHUTDOWN_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_MS],
  ] as const) {
    const deadline = performance.now() + patience;
    if (!(await isPostmasterOf(cluster, pid))) return;
    process.kill(pid, signal);
    while (performance.now() < deadline) {
      if (!(await isPostmasterOf(cluster, pid))) return;
      await setTimeout(POLL_MS);
    }
  }
  throw new EmbeddedPostgresError(
    `The Postgres of ${cluster.data} (process ${pid}) does not stop. End it with ` +
      `\`kill -QUIT ${pid}\`, then start again.`,
    { code: CANNOT_CONNECT_NOW },
  );
}

/**
 * Tells the server to stop as `stopPostmaster` does, but does not wait. Throws the system's error if
 * no server runs.
 */
export function askToStop(cluster: Cluster): void {
  const file = parsePidFile(readFileSync(pidFilePath(cluster), 'utf8'));
  if (file === null) return;
  const command =
    process.platform === 'linux'
      ? readFileSync(commandFile(file.pid), 'utf8')
      : execFileSync('ps', commandArguments(file.pid), { encoding: 'utf8' });
  if (isServerOf(cluster, command)) process.kill(file.pid, 'SIGINT');
}

async function start(cluster: Cluster, lock: number, port: number | null): Promise<Postmaster> {
  await limitLog(cluster.log);
  for (let attempt = 1; ; attempt++) {
    const before = await sizeOf(cluster.log);
    const postmaster = await spawnPostmaster(cluster, lock, port ?? (await freePort()));
    if (postmaster !== null) {
      if (postmaster.port !== port) await writePort(cluster, postmaster.port);
      return postmaster;
    }
    const said = (await readFile(cluster.log)).subarray(before).toString();
    // Another program took the port first, or back ends of a killed server still run.
    const temporary = /Address already in use|is still in use/.test(said);
    if (!temporary || attempt === START_ATTEMPTS) {
      if (said === '' && (await hasNoRoom(cluster.log)))
        throw new EmbeddedPostgresError(
          `Postgres does not start in ${cluster.data}: the disk has no room for its log ` +
            `(${cluster.log}), or its quota is used up`,
          { code: DISK_FULL },
        );
      throw new EmbeddedPostgresError(
        `Postgres does not start in ${cluster.data}; ` +
          `its log (${cluster.log}) says:\n${said.trim()}`,
        FULL.test(said) ? { code: DISK_FULL } : {},
      );
    }
    await setTimeout(250);
  }
}

function portFile(cluster: Cluster): string {
  return join(dirname(cluster.data), 'port');
}

/** Returns the port of the last server; null if it is not known. */
async function lastPort(cluster: Cluster): Promise<number | null> {
  const text = await readFile(portFile(cluster), 'utf8').catch(() => '');
  return Number(text) || null;
}

/** Keeps the port of a server for the one that follows it. A full disk does not end the server. */
async function writePort(cluster: Cluster, port: number): Promise<void> {
  await writeFile(portFile(cluster), String(port), { mode: 0o600 }).catch(() => undefined);
}

/** Returns true if a line cannot be added to the log for lack of room. */
async function hasNoRoom(log: string): Promise<boolean> {
  return appendFile(log, 'The server ended before it wrote a line\n', { flush: true }).then(
    () => false,
    ({ errno }: NodeJS.ErrnoException) => NO_ROOM.includes(-(errno ?? 0)),
  );
}

/**
 * Starts the server, which inherits the open file `lock`. Returns null if it ended before it was
 * ready, or accepts no connection.
 */
async function spawnPostmaster(
  cluster: Cluster,
  lock: number,
  port: number,
): Promise<Postmaster | null> {
  const settings = Object.entries({ ...SETTINGS, ...cluster.settings, port: String(port) });
  const { uid, gid, prefix } = cluster.account;
  const [program = '', ...args] = [
    ...prefix,
    cluster.program,
    '-D',
    cluster.data,
    ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
  createForOwner(cluster.log, 0o600);
  const log = await open(cluster.log, 'a', 0o600);
  try {
    // The server has a session of its own: Ctrl-C in a terminal is for the service, which stops the
    // server after itself.
    const child = spawn(program, args, {
      uid,
      gid,
      detached: true,
      stdio: ['ignore', log.fd, log.fd, lock],
      env: postgresEnvironment(),
    });
    await once(child, 'spawn');
    child.unref();
    let ended = false;
    child.once('exit', () => {
      ended = true;
    });
    const pid = child.pid as number;
    const answering = await waitForAnswer(cluster, pid, () => !ended);
    if (answering === null && !ended) await stopPostmaster(cluster, pid);
    return answering;
  } finally {
    await log.close();
  }
}

/**
 * By default, glibc gives memory back to the kernel whenever 128 KiB are free. Most statements need
 * more than that, so each one got and cleared its pages again: a third of the CPU time of an append.
 * Now a session keeps up to 32 MiB. Blocks of less than 16 MiB must be in what it keeps: with 1 MiB,
 * a rebuild, whose statements have several MiB, took 1.7 times as long.
 */
const KEEP_MEMORY = {
  MALLOC_TRIM_THRESHOLD_: String(32 << 20),
  MALLOC_TOP_PAD_: String(1 << 20),
  MALLOC_MMAP_THRESHOLD_: String(16 << 20),
};

/** Returns an environment without the variables of the service, which may hold secrets. */
export function postgresEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC', ...KEEP_MEMORY };
}

/**
 * Waits until the server answers, through a crash recovery of any length. Returns null if the
 * process ends or does not respond. Ends one that was asked to stop and waits for its sessions.
 */
async function waitForAnswer(
  cluster: Cluster,
  pid: number,
  runs: () => boolean | Promise<boolean> = () => isPostmasterOf(cluster, pid),
): Promise<Postmaster | null> {
  let readySince: number | null = null;
  let stoppingSince: number | null = null;
  while (await runs()) {
    const file = await readPidFile(cluster);
    if (file?.pid === pid && file.status === 'stopping') {
      stoppingSince ??= performance.now();
      if (performance.now() - stoppingSince > STOPPING_MS) await stopPostmaster(cluster, pid);
    } else if (file?.pid === pid && file.status === 'ready') {
      readySince ??= performance.now();
      if (await answers(cluster, file.port)) return { pid, port: file.port };
      if (performance.now() - readySince > UNRESPONSIVE_MS) return null;
    }
    await setTimeout(POLL_MS);
  }
  return null;
}

async function answers(cluster: Cluster, port: number): Promise<boolean> {
  const sql = connect(urlOf(cluster, port, 'postgres'), { max: 1 });
  try {
    const [row] = await sql<{ directory: string; created: boolean }[]>`
      select current_setting('data_directory') as directory,
             exists (select from pg_database where datname = 'waybill') as created`;
    if (row?.directory !== cluster.data) return false;
    if (!row.created) await sql`create database waybill`;
    return true;
  } catch (error) {
    return (error as { code?: string }).code === TOO_MANY_CONNECTIONS;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function pidFilePath(cluster: Cluster): string {
  return join(cluster.data, 'postmaster.pid');
}

/** Reads postmaster.pid. Returns null if there is none. */
export async function readPidFile(cluster: Cluster): Promise<PidFile | null> {
  const text = await readFile(pidFilePath(cluster), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    },
  );
  return parsePidFile(text);
}

/**
 * Parses postmaster.pid. Its lines: process id, data directory, start time, port, socket, address,
 * shared memory, status.
 */
function parsePidFile(text: string): PidFile | null {
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 1
    ? { pid, port: Number(lines[3]), status: lines[7]?.trim() ?? '' }
    : null;
}

/**
 * Returns true if the process is a server of this data directory, not another program that got the
 * same process id later.
 */
export async function isPostmasterOf(cluster: Cluster, pid: number): Promise<boolean> {
  const command = await commandOf(pid).catch(() => '');
  return isServerOf(cluster, command);
}

function isServerOf(cluster: Cluster, command: string): boolean {
  return command.replaceAll('\0', ' ').includes(` -D ${cluster.data} -c `);
}

async function commandOf(pid: number): Promise<string> {
  if (process.platform === 'linux') return readFile(commandFile(pid), 'utf8');
  return (await promisify(execFile)('ps', commandArguments(pid))).stdout;
}

function commandFile(pid: number): string {
  return `/proc/${pid}/cmdline`;
}

function commandArguments(pid: number): string[] {
  return ['-ww', '-o', 'command=', '-p', String(pid)];
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Returns false for a file that a server may be writing right now, and if there is none. */
async function isOld(file: string): Promise<boolean> {
  return stat(file).then(
    ({ mtimeMs }) => Date.now() - mtimeMs > PID_WRITTEN_WITHIN_MS,
    () => false,
  );
}

async function limitLog(log: string): Promise<void> {
  if ((await sizeOf(log)) > LOG_LIMIT_BYTES) await rename(log, `${log}.1`);
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}
