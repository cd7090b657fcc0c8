import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { isEnded, type Transfer } from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import { createListener, type FollowedTransfer, type Listener } from './listener.ts';
import { countEnded, findLiveTransfers, type LiveTransfer } from './queries.ts';

/** Interval of the query while there are listeners. */
const POLL_MS = 1_000;
/**
 * A transfer that began and ended between two polls is found by the time of its creation. The read
 * model may be this far behind, and clocks of processes may differ by it.
 */
const RECENT_MS = 10_000;
/** Ended transfers of an account that one poll announces, at most. The others are only counted. */
const ENDED_ANNOUNCED = 100;

export interface LiveUpdate {
  type: 'snapshot' | 'changes';
  transfers: FollowedTransfer[];
  /**
   * Transfers that have ended and are in no update: of all accounts, or of the one that is
   * followed, as far as they were found.
   */
  moreEnded: number;
}

export interface LiveTransfersDeps {
  sql: Sql;
  logger: Logger;
  /** Returns what transfers wait for, by id. */
  findWaits(transfers: Transfer[]): Promise<Map<string, WaitingFor>>;
}

export interface LiveTransfers {
  /**
   * Yields a snapshot of the open transfers, then their changes, including ends, until the signal
   * aborts. The first changes repeat the ends of the last seconds. Yields null after `quietMs`
   * without a change. Follows only `transferId` and `account`, if they are given. A slow reader
   * gets the latest state of each transfer, not every state. At high rates, further ended transfers
   * are counted instead of sent.
   */
  follow(options: {
    transferId?: string | undefined;
    account: string | null;
    quietMs: number;
    signal: AbortSignal;
  }): AsyncGenerator<LiveUpdate | null>;
}

interface Known {
  text: string;
  live: LiveTransfer & FollowedTransfer;
}

/** Creates a live view of transfers: three queries a second for all listeners together. */
export function createLiveTransfers({ sql, logger, findWaits }: LiveTransfersDeps): LiveTransfers {
  const listeners = new Set<Listener>();
  let known = new Map<string, Known>();
  /** Ended transfers that were announced, were counted, or had ended before. Null before a poll. */
  let endedKnown: number | null = null;
  let lastRefresh: Promise<void> = Promise.resolve();
  let polling = false;

  /** Queries one at a time, because each result is compared with the one before. */
  function refresh(): Promise<void> {
    lastRefresh = lastRefresh.catch(() => undefined).then(compare);
    return lastRefresh;
  }

  async function compare(): Promise<void> {
    const watched = new Set(
      [...listeners].map(({ transferId }) => transferId).filter((id) => id !== undefined),
    );
    const next = new Map<string, Known>();
    // The count comes before the query: this poll shows an end in between, the next one counts it.
    const ended = await countEnded(sql);
    const found = await findLiveTransfers(
      sql,
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
      const account = row.transfer.facts.account_id;
      const endedBefore = endedOf.get(account) ?? 0;
      if (justEnded) endedOf.set(account, endedBefore + 1);
      if (
        before?.text !== text &&
        (!justEnded || endedBefore < ENDED_ANNOUNCED || watched.has(id))
      ) {
        notify(id, live);
        if (justEnded) endedAnnounced++;
      }
      // A transfer without a job has ended. Keeps it until the read model shows the end too.
      const isOpen = live.shown || (!live.open && !isEnded(live.transfer));
      if (isOpen || live.recent || watched.has(id)) next.set(id, { text, live });
    }
    known = next;
    countOthers(ended, endedAnnounced);
    for (const { account, addEnded } of listeners)
      if (account !== null) addEnded(Math.max(0, (endedOf.get(account) ?? 0) - ENDED_ANNOUNCED));
  }

  /** Counts for the listeners the transfers that have ended without being announced. */
  function countOthers(ended: number, announced: number): void {
    const more = ended - (endedKnown ?? ended) - announced;
    if (endedKnown === null || more > 0) endedKnown = ended;
    // Ends after the count: the next one has them.
    else endedKnown += announced;
    // A read model that is being filled has fewer.
    if (more < -ENDED_ANNOUNCED) endedKnown = ended;
    for (const { account, addEnded } of listeners) if (account === null && more > 0) addEnded(more);
  }

  function notify(id: string, { transfer, moving, waiting }: FollowedTransfer): void {
    for (const { transferId, account, add } of listeners)
      if (
        (transferId === undefined || transferId === id) &&
        (account === null || account === transfer.facts.account_id)
      )
        add(id, { transfer, moving, waiting });
  }

  async function poll(): Promise<void> {
    polling = true;
    for (;;) {
      await sleep(POLL_MS, undefined, { ref: false });
      if (listeners.size === 0) break;
      await refresh().catch((error: unknown) => {
        // Without listeners, the service may be shutting down, and Postgres with it.
        if (listeners.size > 0)
          logger.warn({ err: error }, 'open transfers could not be read; retrying in 1 s');
      });
    }
    known = new Map();
    endedKnown = null;
    polling = false;
  }

  return {
    async *follow({ transferId, account, quietMs, signal }) {
      const listener = createListener(transferId, account);
      signal.addEventListener('abort', listener.wake);
      listeners.add(listener);
      try {
        await refresh();
        if (!polling) void poll();
        listener.take();
        const transfers = [...known.values()]
          .map(({ live }) => live)
          .filter(({ transfer }) => account === null || transfer.facts.account_id === account);
        // A list that the reader loaded just before may lack them.
        if (transferId === undefined)
          for (const live of transfers)
            if (isEnded(live.transfer)) listener.add(live.transfer.facts.transfer_id, live);
        yield {
          type: 'snapshot',
          transfers: transfers.filter(({ transfer }) =>
            transferId === undefined
              ? !isEnded(transfer)
              : transfer.facts.transfer_id === transferId,
          ),
          moreEnded: 0,
        };
        while (!signal.aborted) {
          await listener.wait(quietMs);
          if (signal.aborted) return;
          const changes = listener.take();
          yield changes && { type: 'changes', ...changes };
        }
      } finally {
        listeners.delete(listener);
      }
    },
  };
}
