import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { FileError } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import { reasonOf } from '../../domain/errors.ts';
import { timeOf } from '../../domain/ids.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { type Cleanup, endCleanup, giveUpCleanup, takeDueCleanups } from '../dispatch/cleanups.ts';
import { type Catalog, loadCatalog } from '../endpoints/catalog.ts';
import { type EndpointPool, withEndpoint } from '../endpoints/pool.ts';
import { holdSignIn } from '../endpoints/sign-in-holds.ts';
import type { ResumeRecord } from './move/move-state.ts';

const CONCURRENT = 4;
/** Later tries are a day apart, so a server can be down for two weeks and still be cleaned up. */
const MAX_TRIES = 25;
/** Pause if no clean-up was due. */
const LOOK_MS = 1_000;
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
  /** How long others wait for a clean-up. As long as the first try may take, by default. */
  othersWaitMs?: number;
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
  }
  await Promise.all(cleanupDeps.long.keys());
}

/**
 * Removes the leftovers of ended transfers at their destinations, four at a time. Skips a transfer
 * that has a job: it is open and its parts are in use. Retries after 1, 2, 4, ... minutes, later
 * once a day, 25 times in all. Later tries may take longer. If sign-in to the endpoint is on hold,
 * the try counts but does not happen. A server that does not answer holds up no other. One that
 * takes long holds up others for a minute. Its clean-ups then go on, and no other of that server is
 * taken meanwhile. Returns how many clean-ups were due.
 */
export async function cleanUp(deps: CleanupDeps, signal: AbortSignal): Promise<number> {
  const { sql, logger } = deps;
  const due = await takeDue(deps);
  if (due.length === 0) return 0;
  const catalog = await loadCatalog(sql);
  await Promise.all(
    due.map((cleanup) => {
      const { transfer_id, destination } = cleanup;
      const work = cleanUpOne(deps, cleanup, catalog, signal).catch((error: unknown) =>
        logger.error(
          { err: error, transfer_id },
          'the outcome of a clean-up could not be recorded; it is tried again',
        ),
      );
      return unlessLong(deps, work, serverOf(destination));
    }),
  );
  return due.length;
}

/** Removes what one transfer left. Rejects only if Postgres does not answer. */
async function cleanUpOne(
  { sql, logger, endpoints, silent }: CleanupDeps,
  cleanup: Cleanup,
  catalog: Catalog,
  signal: AbortSignal,
): Promise<void> {
  const { transfer_id, account_id, destination, resume_record, size_bytes, tries } = cleanup;
  const record = resume_record as ResumeRecord | null;
  const match = matchEndpoint(
    parseTransferUri(destination, 'destination'),
    catalog.endpoints,
    account_id,
  );
  try {
    if (match) {
      if (catalog.held.has(match.endpoint.endpoint_id)) return;
      await withEndpoint(endpoints, match.endpoint, (endpoint) =>
        endpoint.removeLeftovers(match.path, {
          transferId: transfer_id,
          resume: record?.destination ?? null,
          since: new Date(timeOf(transfer_id)),
          completed: cleanup.completed,
          size: size_bytes === null ? null : Number(size_bytes),
          sha256: record?.committing?.sha256 ?? null,
          repeated: cleanup.repeated,
          signal: AbortSignal.any([signal, AbortSignal.timeout(limitOf(tries))]),
        }),
      );
    }
    await endCleanup(sql, { transfer_id, tries });
  } catch (error) {
    if (match && error instanceof FileError && error.code === 'auth_failed')
      await holdSignIn(sql, match.endpoint);
    if (error instanceof FileError && isNetworkFailure(error.code))
      silent.set(serverOf(destination), performance.now() + AVOIDED_MS);
    logger.warn(
      { ...causeForLog(error), transfer_id, tries },
      'could not remove the leftovers of a transfer at its destination',
    );
    if (tries >= MAX_TRIES) await giveUpCleanup(sql, transfer_id);
  }
}

/** Waits for a clean-up while others may wait for it. `long` has it from then on. */
async function unlessLong(
  { long, othersWaitMs = FIRST_LIMIT_MS }: CleanupDeps,
  work: Promise<void>,
  server: string,
): Promise<void> {
  const ended = new AbortController();
  const isLong = sleep(othersWaitMs, true, { signal: ended.signal }).catch(() => false);
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

async function takeDue({ sql, silent, long }: CleanupDeps): Promise<Cleanup[]> {
  for (const [server, until] of silent) if (until <= performance.now()) silent.delete(server);
  const busy = [...long.values()];
  const due = await takeDueCleanups(sql, CONCURRENT, [...silent.keys(), ...busy]);
  return due.length > 0 || silent.size === 0 ? due : takeDueCleanups(sql, CONCURRENT, busy);
}

/** Returns the start of a URI that names its server. */
function serverOf(uri: string): string {
  return `${uri.split('/', 3).join('/')}/`;
}

/** Logs only the reason if a server rejects or is down. Logs the stack of any other error. */
function causeForLog(error: unknown): { reason: string } | { err: unknown } {
  return error instanceof FileError ? { reason: reasonOf(error) } : { err: error };
}
