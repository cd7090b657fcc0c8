import type { Logger } from 'pino';
import { type FileEndpoint, FileError, type Side } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { reasonOf } from '../../domain/errors.ts';
import { timeOf } from '../../domain/ids.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { type Cleanup, endCleanup, takeCleanup, takeLook } from '../dispatch/cleanups.ts';
import { loadCatalog } from '../endpoints/catalog.ts';
import { type EndpointPool, withEndpoint } from '../endpoints/pool.ts';
import { holdSignIn } from '../endpoints/sign-in-holds.ts';
import { endLook, giveUpLooks, type LateLook } from '../late-looks.ts';
import type { ResumeRecord } from './move/move-state.ts';

/** How many clean-ups run at once, in all. */
const AT_ONCE = 64;
/** Later tries are a day apart, so a server can be down for two weeks and still be cleaned up. */
const MAX_TRIES = 25;
/** Pause if nothing was due. */
const LOOK_MS = 1_000;
/** How long the first try may take, and any try. */
const FIRST_LIMIT_MS = 60_000;
const LONGEST_LIMIT_MS = 60 * 60_000;

export interface CleanupDeps {
  sql: Sql;
  logger: Logger;
  endpoints: EndpointPool;
}

/**
 * Removes the leftovers of ended transfers at their destinations, and looks for what late requests
 * have done there and at sources, until the signal aborts. Runs beside the attempts of a mover and
 * never delays them. Skips a transfer that has a job: it is open and its parts are in use. Retries
 * after 1, 2, 4, ... minutes, later once a day, 25 times in all. Later tries may take longer. If
 * sign-in to the endpoint is on hold, the try counts but does not happen.
 *
 * The server at which least runs has the next place: see `nextOfServers`.
 */
export async function runCleanUps(deps: CleanupDeps, signal: AbortSignal): Promise<void> {
  const { sql, logger } = deps;
  /** What runs, each with its server. */
  const running = new Map<Promise<void>, string>();
  const ended = createWakeUp();
  signal.addEventListener('abort', ended.wake, { once: true });
  for (let turn = 0; !signal.aborted; turn++) {
    const task = await next(turn);
    if (task) start(task);
    else await ended.wait(LOOK_MS);
  }
  await Promise.all(running.keys());

  async function next(turn: number): Promise<Task | null> {
    if (running.size === AT_ONCE) return null;
    try {
      return await takeDue(sql, [...running.values()], turn);
    } catch (error) {
      logger.error({ err: error }, 'leftovers could not be removed; retrying');
      return null;
    }
  }

  function start(task: Task): void {
    const work = cleanUp(deps, task, signal).finally(() => {
      running.delete(work);
      ended.wake();
    });
    running.set(work, task.server);
  }
}

/** Work at the server of one URI, and the calls that record its outcome. */
interface Task {
  transferId: string;
  accountId: string;
  uri: string;
  server: string;
  side: Side;
  tries: number;
  carryOut(endpoint: FileEndpoint, path: string, signal: AbortSignal): Promise<unknown>;
  end(): Promise<void>;
  giveUp(): Promise<void>;
}

/** Carries out one task. Never rejects. */
async function cleanUp(deps: CleanupDeps, task: Task, signal: AbortSignal): Promise<void> {
  try {
    await tryOnce(deps, task, signal);
  } catch (error) {
    deps.logger.error(
      { err: error, transfer_id: task.transferId },
      'the outcome of a clean-up could not be recorded; it is tried again',
    );
  }
}

/** Carries out one task. Rejects only if Postgres does not answer. */
async function tryOnce(
  { sql, logger, endpoints }: CleanupDeps,
  task: Task,
  signal: AbortSignal,
): Promise<void> {
  const { transferId, accountId, uri, side, tries } = task;
  const catalog = await loadCatalog(sql);
  const match = matchEndpoint(parseTransferUri(uri, side), catalog.endpoints, accountId);
  const isLast = tries >= MAX_TRIES;
  try {
    if (match) {
      if (catalog.held.has(match.endpoint.endpoint_id)) return isLast ? task.giveUp() : undefined;
      const limit = AbortSignal.any([signal, AbortSignal.timeout(limitOf(tries))]);
      await withEndpoint(endpoints, match.endpoint, (endpoint) =>
        task.carryOut(endpoint, match.path, limit),
      );
    }
    await task.end();
  } catch (error) {
    if (match && error instanceof FileError && error.code === 'auth_failed')
      await holdSignIn(sql, match.endpoint);
    logger.warn(
      { ...causeForLog(error), transfer_id: transferId, tries },
      side === 'destination'
        ? 'could not remove the leftovers of a transfer at its destination'
        : 'could not look for a hidden source of a transfer',
    );
    if (isLast) await task.giveUp();
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
    server: cleanup.server,
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
    giveUp: () => endCleanup(sql, cleanup),
  };
}

/** A look for what late requests have done. */
function lookTask(sql: Sql, look: LateLook): Task {
  const { transfer_id, account_id, uri, side, state, tries } = look;
  return {
    transferId: transfer_id,
    accountId: account_id,
    uri,
    server: look.server,
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

/**
 * Returns how long a try may take, in milliseconds: twice as long as the one before. A folder may
 * have so many names, or its server be so far away, that a minute is too short to list it.
 */
function limitOf(tries: number): number {
  return Math.min(LONGEST_LIMIT_MS, FIRST_LIMIT_MS * 2 ** (tries - 1));
}

/**
 * Takes a task that is due. Clean-ups may be so many that they take hours, so in every second turn a
 * look goes first. Returns null if nothing is due.
 */
async function takeDue(sql: Sql, running: string[], turn: number): Promise<Task | null> {
  const cleanup = async () => {
    const taken = await takeCleanup(sql, running);
    return taken && cleanupTask(sql, taken);
  };
  const look = async () => {
    const taken = await takeLook(sql, running);
    return taken && lookTask(sql, taken);
  };
  return turn % 2 === 0 ? ((await cleanup()) ?? look()) : ((await look()) ?? cleanup());
}

/** Logs only the reason if a server rejects or is down. Logs the stack of any other error. */
function causeForLog(error: unknown): { reason: string } | { err: unknown } {
  return error instanceof FileError ? { reason: reasonOf(error) } : { err: error };
}
