import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { createWakeUp, type WakeUp } from '../../concurrency/wake-up.ts';
import { isEnded, type Transfer } from '../../domain/transfer.ts';
import type { WaitingFor } from '../../domain/waiting-for.ts';
import { type FoundTransfer, findLiveTransfers, type LiveTransfer } from './queries.ts';

/** Interval of the query while there are listeners. */
const POLL_MS = 1_000;

export interface FollowedTransfer extends FoundTransfer {
  /** Why it does not move. Null if it moves or has ended. */
  waiting: WaitingFor | null;
}

export interface LiveUpdate {
  type: 'snapshot' | 'changes';
  transfers: FollowedTransfer[];
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
   * aborts. Yields null after `quietMs` without a change. If `transferId` is given, follows only
   * that transfer. A slow reader gets the latest state of each transfer, not every state.
   */
  follow(options: {
    transferId?: string | undefined;
    quietMs: number;
    signal: AbortSignal;
  }): AsyncGenerator<LiveUpdate | null>;
}

interface Listener {
  transferId: string | undefined;
  changes: Map<string, FollowedTransfer>;
  wakeUp: WakeUp;
}

interface Known {
  text: string;
  live: LiveTransfer & FollowedTransfer;
}

/** Creates a live view of open transfers: two queries a second for all listeners together. */
export function createLiveTransfers({ sql, logger, findWaits }: LiveTransfersDeps): LiveTransfers {
  const listeners = new Set<Listener>();
  let known = new Map<string, Known>();
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
    const found = await findLiveTransfers(sql, [...known.keys(), ...watched]);
    const waits = await findWaits(found.map(({ transfer }) => transfer));
    for (const row of found) {
      const id = row.transfer.facts.transfer_id;
      const live = { ...row, waiting: waits.get(id) ?? null };
      const text = JSON.stringify([live.transfer, live.moving, live.waiting]);
      if (known.get(id)?.text !== text) notify(id, live);
      // A transfer without a job has ended. Keeps it until the read model shows the end too.
      if (live.shown || watched.has(id) || (!live.open && !isEnded(live.transfer)))
        next.set(id, { text, live });
    }
    known = next;
  }

  function notify(id: string, { transfer, moving, waiting }: FollowedTransfer): void {
    for (const { transferId, changes, wakeUp } of listeners) {
      if (transferId !== undefined && transferId !== id) continue;
      changes.set(id, { transfer, moving, waiting });
      wakeUp.wake();
    }
  }

  async function poll(): Promise<void> {
    polling = true;
    for (;;) {
      await sleep(POLL_MS, undefined, { ref: false });
      if (listeners.size === 0) break;
      await refresh().catch((error: unknown) => {
        // Without listeners, the service may be shutting down, and Postgres with it.
        if (listeners.size > 0)
          logger.warn({ err: error }, 'could not query open transfers; retrying');
      });
    }
    known = new Map();
    polling = false;
  }

  return {
    async *follow({ transferId, quietMs, signal }) {
      const listener: Listener = { transferId, changes: new Map(), wakeUp: createWakeUp() };
      signal.addEventListener('abort', listener.wakeUp.wake);
      listeners.add(listener);
      try {
        await refresh();
        if (!polling) void poll();
        listener.changes.clear();
        const transfers = [...known.values()].map(({ live }) => live);
        yield {
          type: 'snapshot',
          transfers: transfers.filter((live) =>
            transferId === undefined
              ? !isEnded(live.transfer)
              : live.transfer.facts.transfer_id === transferId,
          ),
        };
        while (!signal.aborted) {
          await listener.wakeUp.wait(quietMs);
          if (signal.aborted) return;
          const changes = [...listener.changes.values()];
          listener.changes.clear();
          yield changes.length > 0 ? { type: 'changes', transfers: changes } : null;
        }
      } finally {
        listeners.delete(listener);
      }
    },
  };
}
