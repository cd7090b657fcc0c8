import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Semaphore } from '../../concurrency/semaphore.ts';
import { isEnded, type Transfer } from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import type { FollowedTransfer, Listener } from './listener.ts';
import {
  countEnded,
  countEndedOf,
  findLiveTransfers,
  type LiveTransfer,
  oldestOpenHour,
} from './queries.ts';

/** Interval of the query while there are listeners. */
const POLL_MS = 1_000;
/**
 * A transfer that began and ended between two polls is found by the time of its creation. The read
 * model may be this far behind, and clocks of processes may differ by it.
 */
const RECENT_MS = 10_000;
/** Ended transfers of an account that one poll announces, at most. The others are only counted. */
const ENDED_ANNOUNCED = 100;

export interface LiveViewDeps {
  sql: Sql;
  logger: Logger;
  /** Returns what transfers wait for, by id. */
  findWaits(transfers: Transfer[]): Promise<Map<string, WaitingFor>>;
  /** Limits the views that query at a time. */
  queries: Semaphore;
}

/** What the listeners of one account see, or those that see all accounts. */
export interface LiveView {
  /** Adds a listener, and returns the open transfers and those that ended in the last seconds. */
  join(listener: Listener): Promise<FollowedTransfer[]>;
  /** Removes a listener. The polls stop after the last one left. */
  leave(listener: Listener): void;
}

interface Known {
  text: string;
  live: LiveTransfer & FollowedTransfer;
  /** True if it has had a job since it is known. */
  hadJob: boolean;
}

/** Creates the view of an account, or of all if it is null. `onIdle` is called when polls stop. */
export function createLiveView(
  { sql, logger, findWaits, queries }: LiveViewDeps,
  account: string | null,
  onIdle: () => void,
): LiveView {
  const listeners = new Set<Listener>();
  let known = new Map<string, Known>();
  /** Ended transfers that were announced, were counted, or had ended before. Null before a poll. */
  let endedKnown: number | null = null;
  /** Only transfers that were created since can end. Years of an account have many counts. */
  let openSince: Date | null = null;
  let polling = false;
  let lastQueries: Promise<void> = Promise.resolve();

  /** Queries in turn: each result is compared with the one before. */
  function query(): Promise<void> {
    lastQueries = lastQueries.catch(() => undefined).then(() => queries.run(compare));
    return lastQueries;
  }

  async function compare(): Promise<void> {
    const watched = new Set(
      [...listeners].map(({ transferId }) => transferId).filter((id) => id !== undefined),
    );
    const next = new Map<string, Known>();
    // The count comes before the query: this poll shows an end in between, the next one counts it.
    const ended = await countEndedSoFar();
    const found = await findLiveTransfers(
      sql,
      account,
      [...known.keys(), ...watched],
      Date.now() - RECENT_MS,
    );
    const waits = await findWaits(found.map(({ transfer }) => transfer));
    let endedAnnounced = 0;
    const endedOf = new Map<string, number>();
    for (const row of found) {
      const id = row.transfer.facts.transfer_id;
      const live = { ...row, waiting: waits.get(id) ?? null };
      const text = JSON.stringify([live.transfer, live.moving, live.waiting]);
      const before = known.get(id);
      const wasOpen = before ? !isEnded(before.live.transfer) : live.recent;
      const justEnded = wasOpen && isEnded(live.transfer);
      const owner = row.transfer.facts.account_id;
      const endedBefore = endedOf.get(owner) ?? 0;
      if (justEnded) endedOf.set(owner, endedBefore + 1);
      if (
        before?.text !== text &&
        (!justEnded || endedBefore < ENDED_ANNOUNCED || watched.has(id))
      ) {
        notify(id, live);
        if (justEnded) endedAnnounced++;
      }
      const hadJob = live.open || before?.hadJob === true;
      // A transfer that lost its job has ended. Keeps it until the read model shows the end too. One
      // that never had a job waits for dispatch: while no mover runs, there may be any number.
      const isEnding = hadJob && !live.open && !isEnded(live.transfer);
      if (live.shown || isEnding || live.recent || watched.has(id))
        next.set(id, { text, live, hadJob });
    }
    known = next;
    countOthers(ended, endedAnnounced);
  }

  async function countEndedSoFar(): Promise<number> {
    if (account === null) return countEnded(sql);
    openSince ??= await oldestOpenHour(sql, account);
    return countEndedOf(sql, account, openSince);
  }

  /** Counts for the listeners the transfers that have ended without being announced. */
  function countOthers(ended: number, announced: number): void {
    const more = ended - (endedKnown ?? ended) - announced;
    if (endedKnown === null || more > 0) endedKnown = ended;
    // Ends after the count: the next one has them.
    else endedKnown += announced;
    // A read model that is being filled has fewer.
    if (more < -ENDED_ANNOUNCED) endedKnown = ended;
    if (more > 0) for (const { addEnded } of listeners) addEnded(more);
  }

  function notify(id: string, { transfer, moving, waiting }: FollowedTransfer): void {
    for (const { transferId, add } of listeners)
      if (transferId === undefined || transferId === id) add(id, { transfer, moving, waiting });
  }

  async function poll(): Promise<void> {
    polling = true;
    for (;;) {
      await sleep(POLL_MS, undefined, { ref: false });
      if (listeners.size === 0) break;
      await query().catch((error: unknown) => {
        // Without listeners, the service may be shutting down, and Postgres with it.
        if (listeners.size > 0)
          logger.warn({ err: error }, 'open transfers could not be read; retrying in 1 s');
      });
    }
    polling = false;
    onIdle();
  }

  return {
    async join(listener) {
      listeners.add(listener);
      await query();
      if (!polling) void poll();
      return [...known.values()].map(({ live }) => live);
    },
    leave(listener) {
      listeners.delete(listener);
      if (listeners.size === 0 && !polling) onIdle();
    },
  };
}
