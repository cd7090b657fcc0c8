import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { createSemaphore } from '../../concurrency/semaphore.ts';
import { fold } from '../../domain/events/decider.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, streamName } from '../../domain/events/streams.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import { hashOfLeaf } from '../../domain/proof/leaf.ts';
import { LogChanged } from '../../domain/proof/log-changed.ts';
import type { RemovedTransfer } from '../../domain/retention.ts';
import { transferDecider } from '../../domain/transfers/decider.ts';
import { isClosed } from '../../domain/transfers/transfer.ts';
import { findLeaves } from '../../projections/proof/tiles.ts';
import { LIVE_SCHEMA } from '../../projections/read-models.ts';
import { removableTransfers } from '../../projections/transfers/removable-transfers.ts';
import { withoutCleanups } from '../dispatch/cleanups.ts';

/** Transfers that one query returns. Their events are in memory together. */
const BATCH = 500;
/** Streams that are read at a time. An EventStoreDB must answer each read within three seconds. */
const READS_AT_ONCE = 16;

export interface Choice {
  /** Only transfers that ended before this time. */
  endedBefore: Date;
  /** Null means all accounts. */
  accountId: string | null;
}

/** A transfer that may leave the log, with all of its events. */
export interface Chosen {
  transfer: RemovedTransfer;
  events: StoredEvent[];
}

/**
 * Yields the transfers that may leave the log: those that ended before the time, and with which
 * nothing is left to do. Their steps after the transfer, their clean-up, their batch and their run
 * have ended too. A retry stays as long as what it repeats: a batch or a flow that does not know it
 * would repeat that once more. Every event has to be among the first `size` leaves of the tree. Throws
 * LogChanged for an event that is not as it was when it was folded into the tree.
 */
export async function* choose(
  { sql, store }: { sql: Sql; store: EventStore },
  { endedBefore, accountId }: Choice,
  size: number,
): AsyncGenerator<Chosen> {
  const reads = createSemaphore(READS_AT_ONCE);
  const kept = new Set<string>();
  for (let after = ''; ; ) {
    const found = await removableTransfers(sql, { endedBefore, accountId, after, limit: BATCH });
    if (found.length === 0) return;
    const ids = found.map(({ transfer_id }) => transfer_id);
    after = ids.at(-1) as string;
    const free = await withoutCleanups(sql, ids);
    const streams = await Promise.all(
      free.map((id) => reads.run(() => store.read(streamName('transfer', id)))),
    );
    const ended = streams.filter((events) => endedBy(events, endedBefore));
    const leaves = ended.flat().map((event) => ({ event, hash: hashOfLeaf(event) }));
    const indexes = await findLeaves(sql, LIVE_SCHEMA, leaves);
    const places = new Map(
      leaves.map((leaf) => [leaf.event.id, { hash: leaf.hash, index: indexes.get(leaf) ?? null }]),
    );
    const chosen = new Map(
      ended.map((events) => {
        const transfer = removedOf(events, places);
        return [transfer.transfer_id, { transfer, events }];
      }),
    );
    for (const { transfer_id, retry_of, original_stays } of found) {
      const one = chosen.get(transfer_id);
      const stays = original_stays || (retry_of !== null && kept.has(retry_of));
      if (one && !stays && one.transfer.events.every(({ index }) => index < size)) yield one;
      else kept.add(transfer_id);
    }
  }
}

/** Returns true if nothing can follow these events, and the last one is older than the time. */
function endedBy(events: StoredEvent[], time: Date): boolean {
  const state = fold(transferDecider, events);
  const last = events.at(-1);
  return last !== undefined && isClosed(state) && new Date(last.metadata.occurred_at) < time;
}

function removedOf(
  events: StoredEvent[],
  places: Map<string, { hash: Hash; index: number | null }>,
): RemovedTransfer {
  const [{ stream, metadata }] = events as [StoredEvent];
  return {
    transfer_id: parseStream(stream).id,
    account_id: metadata.account_id as string,
    events: events.map(({ id, position, revision }) => {
      const { hash, index } = places.get(id) as { hash: Hash; index: number | null };
      if (index === null)
        throw new LogChanged(
          `${stream} revision ${revision} (${id}) is not as it was when it was folded into the ` +
            'tree. Nothing leaves the log. Compare: waybill projections verify proof',
        );
      return { id, index, position: String(position), hash: Buffer.from(hash).toString('hex') };
    }),
  };
}
