import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../adapters/postgres/connect.ts';
import { type Bell, createBell } from '../bell.ts';
import { findLiveTransfers, type LiveTransfer } from '../projections/live-transfer-queries.ts';
import type { FoundTransfer } from '../projections/transfer-queries.ts';

/** Changes are looked for, and told, this often at most. */
const EVERY_MS = 1_000;

export interface LiveUpdate {
  type: 'snapshot' | 'changes';
  transfers: FoundTransfer[];
}

export interface LiveTransfers {
  /**
   * First what is open now, then what of it has changed since, ends included, until the signal aborts; null where nothing has
   * for `quietMs`. Of one transfer alone where an id is given. Whoever reads slowly gets the latest state of each, not every one.
   */
  follow(options: { transferId?: string | undefined; quietMs: number; signal: AbortSignal }): AsyncGenerator<LiveUpdate | null>;
}

interface Listener {
  transferId: string | undefined;
  changes: Map<string, FoundTransfer>;
  bell: Bell;
}

interface Known {
  text: string;
  live: LiveTransfer;
}

/** Open transfers as they move, for any number of listeners at the price of one query a second, and of none without listeners. */
export function createLiveTransfers({ sql, logger }: { sql: Sql; logger: Logger }): LiveTransfers {
  const listeners = new Set<Listener>();
  let known = new Map<string, Known>();
  let looked: Promise<void> = Promise.resolve();
  let polling = false;

  /** One look after the other: each compares with the one before. */
  function look(): Promise<void> {
    looked = looked.catch(() => undefined).then(compare);
    return looked;
  }

  async function compare(): Promise<void> {
    const watched = new Set([...listeners].map(({ transferId }) => transferId).filter((id) => id !== undefined));
    const next = new Map<string, Known>();
    for (const live of await findLiveTransfers(sql, [...known.keys(), ...watched])) {
      const id = live.transfer.facts.transfer_id;
      const text = JSON.stringify([live.transfer, live.moving]);
      if (known.get(id)?.text !== text) tell(id, live);
      // One without a to-do row has ended, whatever the read model says yet: its end is waited for.
      if (live.shown || watched.has(id) || (!live.open && !hasEnded(live))) next.set(id, { text, live });
    }
    known = next;
  }

  function tell(id: string, { transfer, moving }: LiveTransfer): void {
    for (const { transferId, changes, bell } of listeners) {
      if (transferId !== undefined && transferId !== id) continue;
      changes.set(id, { transfer, moving });
      bell.ring();
    }
  }

  async function poll(): Promise<void> {
    polling = true;
    for (;;) {
      await sleep(EVERY_MS, undefined, { ref: false });
      if (listeners.size === 0) break;
      await look().catch((error: unknown) => {
        // The last listener may have left because the service stops, and Postgres with it.
        if (listeners.size > 0) logger.warn({ err: error }, 'open transfers could not be looked at; trying again');
      });
    }
    known = new Map();
    polling = false;
  }

  return {
    async *follow({ transferId, quietMs, signal }) {
      const listener: Listener = { transferId, changes: new Map(), bell: createBell() };
      signal.addEventListener('abort', listener.bell.ring);
      listeners.add(listener);
      try {
        await look();
        if (!polling) void poll();
        listener.changes.clear();
        const transfers = [...known.values()].map(({ live }) => live);
        yield {
          type: 'snapshot',
          transfers: transfers.filter((live) =>
            transferId === undefined ? !hasEnded(live) : live.transfer.facts.transfer_id === transferId,
          ),
        };
        while (!signal.aborted) {
          await listener.bell.wait(quietMs);
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

function hasEnded({ transfer }: FoundTransfer): boolean {
  return transfer.status === 'completed' || transfer.status === 'failed' || transfer.status === 'cancelled';
}
