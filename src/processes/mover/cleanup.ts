import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type FileEndpoint, FileError, type Side } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import { reasonOf } from '../../domain/errors.ts';
import { timeOf } from '../../domain/ids.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import {
  type Cleanup,
  endCleanup,
  giveUpCleanup,
  takeDueCleanups,
  takeLooks,
} from '../dispatch/cleanups.ts';
import { type Catalog, loadCatalog } from '../endpoints/catalog.ts';
import { type EndpointPool, withEndpoint } from '../endpoints/pool.ts';
import { holdSignIn } from '../endpoints/sign-in-holds.ts';
import { endLook, giveUpLooks, type LateLook } from '../late-looks.ts';
import type { ResumeRecord } from './move/move-state.ts';

const CONCURRENT = 4;
/** Looks that go before clean-ups, which may be so many that they take hours. */
const LOOKS_FIRST = 2;
/** Later tries are a day apart, so a server can be down for two weeks and still be cleaned up. */
const MAX_TRIES = 25;
/** Pause if no clean-up was due. */
const LOOK_MS = 1_000;
/** How long clean-ups at other servers wait for one. */
const OTHERS_WAIT_MS = 2_000;
/** How many that took longer may go on beside the others. */
const LONG_AT_ONCE = 64;
/** How long the first try may take, and any try. */
const FIRST_LIMIT_MS = 60_000;
const LONGEST_LIMIT_MS = 60 * 60_000;
/** How long a server that does not answer is tried only if no clean-up at another one is due. */
const AVOIDED_MS = 60_000;

export interface CleanupDeps {
  sql: Sql;
  logger: Logger;
  endpoints: EndpointPool;
  /** Servers that did not answer, and until when they are avoided, by `performance.now`. */
  silent: Map<string, number>;
  /** Clean-ups that others do not wait for any longer, each with its server. */
  long: Map<Promise<void>, string>;
}

/** Cleans up until the signal aborts. Runs beside the attempts of a mover and never delays them. */
export async function runCleanUps(
  deps: Omit<CleanupDeps, 'silent' | 'long'>,
  signal: AbortSignal,
): Promise<void> {
  const cleanupDeps: CleanupDeps = { ...deps, silent: new Map(), long: new Map() };
  while (!signal.aborted) {
    const due = await cleanUp(cleanupDeps, signal).catch((error: unknown) => {
      deps.logger.error({ err: error }, 'leftovers could not be removed; retrying in 1 s');
      return 0;
    });
    if (due === 0) await pause(LOOK_MS, signal);
    while (cleanupDeps.long.size >= LONG_AT_ONCE) await Promise.race(cleanupDeps.long.keys());
  }
  await Promise.all(cleanupDeps.long.keys());
}

/** Work at the server of one URI, and the calls that record its outcome. */
interface Task {
  transferId: string;
  accountId: string;
  uri: string;
  side: Side;
  tries: number;
  carryOut(endpoint: FileEndpoint, path: string, signal: AbortSignal): Promise<unknown>;
  end(): Promise<void>;
  giveUp(): Promise<void>;
}

/**
 * Removes the leftovers of ended transfers at their destinations, and looks for what late requests
 * have done there and at sources, four at a time. Skips a transfer that has a job: it is open and
 * its parts are in use. Retries after 1, 2, 4, ... minutes, later once a day, 25 times in all.
 * Later tries may take longer. If sign-in to the endpoint is on hold, the try counts but does not
 * happen. A server that takes long, or does not answer, holds up others for two seconds. Its
 * clean-ups then go on, and no other of that server is taken meanwhile. Returns how many clean-ups
 * and looks were due.
 */
export async function cleanUp(deps: CleanupDeps, signal: AbortSignal): Promise<number> {
  const { sql, logger } = deps;
  const due = await takeDue(deps);
  if (due.length === 0) return 0;
  const catalog = await loadCatalog(sql);
  await Promise.all(
    due.map((task) => {
      const work = cleanUpOne(deps, task, catalog, signal).catch((error: unknown) =>
        logger.error(
          { err: error, transfer_id: task.transferId },
          'the outcome of a clean-up could not be recorded; it is tried again',
        ),
      );
      return unlessLong(deps, work, serverOf(task.uri));
    }),
  );
  return due.length;
}

/** Carries out one task. Rejects only if Postgres does not answer. */
async function cleanUpOne(
  { sql, logger, endpoints, silent }: CleanupDeps,
  task: Task,
  catalog: Catalog,
  signal: AbortSignal,
): Promise<void> {
  const { transferId, accountId, uri, side, tries } = task;
  const match = matchEndpoint(parseTransferUri(uri, side), catalog.endpoints, accountId);
  try {
    if (match) {
      if (catalog.held.has(match.endpoint.endpoint_id)) return;
      const limit = AbortSignal.any([signal, AbortSignal.timeout(limitOf(tries))]);
      await withEndpoint(endpoints, match.endpoint, (endpoint) =>
        task.carryOut(endpoint, match.path, limit),
      );
    }
    await task.end();
  } catch (error) {
    if (match && error instanceof FileError && error.code === 'auth_failed')
      await holdSignIn(sql, match.endpoint);
    if (error instanceof FileError && isNetworkFailure(error.code))
      silent.set(serverOf(uri), performance.now() + AVOIDED_MS);
    logger.warn(
      { ...causeForLog(error), transfer_id: transferId, tries },
      side === 'destination'
        ? 'could not remove the leftovers of a transfer at its destination'
        : 'could not look for a hidden source of a transfer',
    );
    if (tries >= MAX_TRIES) await task.giveUp();
  }
}

/** The clean-up of an ended transfer at its destination. */
function cleanupTask(sql: Sql, cleanup: Cleanup): Task {
  const { transfer_id, account_id, destination, resume_record, size_bytes, tries } = cleanup;
  const record = resume_record as ResumeRecord | null;
  return {
    transferId: transfer_id,
    accountId: account_id,
    uri: destination,
    side: 'destination',
    tries,
    carryOut: (endpoint, path, signal) =>
      endpoint.removeLeftovers(path, {
        ...leftoversOf(transfer_id, record),
        completed: cleanup.completed,
        size: size_bytes === null ? null : Number(size_bytes),
        sha256: record?.committing?.sha256 ?? null,
        repeated: cleanup.repeated,
        signal,
      }),
    end: () => endCleanup(sql, cleanup),
    giveUp: () => giveUpCleanup(sql, transfer_id),
  };
}

/** A look for what late requests have done. */
function lookTask(sql: Sql, look: LateLook): Task {
  const { transfer_id, account_id, uri, side, state, tries } = look;
  return {
    transferId: transfer_id,
    accountId: account_id,
    uri,
    side,
    tries,
    async carryOut(endpoint, path, signal) {
      if (side === 'destination') {
        const left = leftoversOf(transfer_id, state as ResumeRecord | null);
        return endpoint.removeLeftovers(path, { ...left, repeated: true, signal });
      }
      const { tried } = state as { tried: number };
      return endpoint.restoreSource?.(path, { transferId: transfer_id, tried, signal });
    },
    end: () => endLook(sql, look),
    giveUp: () => giveUpLooks(sql, look),
  };
}

function leftoversOf(transferId: string, record: ResumeRecord | null) {
  const since = new Date(timeOf(transferId));
  return { transferId, resume: record?.destination ?? null, since };
}

/** Waits for a clean-up while others may wait for it. `long` has it from then on. */
async function unlessLong(
  { long }: CleanupDeps,
  work: Promise<void>,
  server: string,
): Promise<void> {
  const ended = new AbortController();
  const isLong = sleep(OTHERS_WAIT_MS, true, { signal: ended.signal }).catch(() => false);
  const inTime = work.then(() => ended.abort());
  if (!(await isLong)) return;
  const running = inTime.finally(() => long.delete(running));
  long.set(running, server);
}

/**
 * Returns how long a try may take, in milliseconds: twice as long as the one before. A folder may
 * have so many names, or its server be so far away, that a minute is too short to list it.
 */
function limitOf(tries: number): number {
  return Math.min(LONGEST_LIMIT_MS, FIRST_LIMIT_MS * 2 ** (tries - 1));
}

async function takeDue({ sql, silent, long }: CleanupDeps): Promise<Task[]> {
  for (const [server, until] of silent) if (until <= performance.now()) silent.delete(server);
  const busy = [...long.values()];
  const due = await takeWithout(sql, [...silent.keys(), ...busy]);
  return due.length > 0 || silent.size === 0 ? due : takeWithout(sql, busy);
}

/** Takes tasks that are due, at other servers than these. Of both kinds if both are due. */
async function takeWithout(sql: Sql, avoided: string[]): Promise<Task[]> {
  const looks = await takeLooks(sql, LOOKS_FIRST, avoided);
  const cleanups = await takeDueCleanups(sql, CONCURRENT - looks.length, avoided);
  const left = CONCURRENT - looks.length - cleanups.length;
  if (looks.length === LOOKS_FIRST && left > 0)
    looks.push(...(await takeLooks(sql, left, avoided)));
  return [
    ...cleanups.map((cleanup) => cleanupTask(sql, cleanup)),
    ...looks.map((look) => lookTask(sql, look)),
  ];
}

/** Returns the start of a URI that names its server. */
function serverOf(uri: string): string {
  return `${uri.split('/', 3).join('/')}/`;
}

/** Logs only the reason if a server rejects or is down. Logs the stack of any other error. */
function causeForLog(error: unknown): { reason: string } | { err: unknown } {
  return error instanceof FileError ? { reason: reasonOf(error) } : { err: error };
}
