/**
 * The event store in the installation's own Postgres: the table `log.events`, the row `log.head`,
 * and the SQL function `log.append`.
 *
 * The function locks the head row: positions have no gaps and become visible in order. It notifies
 * the channel `waybill_log` of the kinds of streams and the new head. `append.ts` calls it,
 * `subscribe.ts` follows the log.
 *
 * If Postgres stays unavailable, appends and reads throw EventStoreUnavailable (`retry.ts`).
 *
 * All of it relies on the head lock, and on a driver that rejects every query of a lost connection.
 */
import { createBatcher, type Left } from '../../../concurrency/batcher.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { Sql } from '../../postgres/connect.ts';
import type { EventStore } from '../port.ts';
import { createAppend } from './append.ts';
import { countRemoved, findPositionFaults } from './positions.ts';
import { RETRY_FOR_MS, retryWhileUnavailable } from './retry.ts';
import { type StoredRow, toAnyEvent, toEvent } from './rows.ts';
import { createSubscriptions } from './subscribe.ts';

/** No stream has this many events: the largest integer of Postgres. */
const ANY_REVISION = 2_147_483_647;

export interface PostgresLogOptions {
  sql: Sql;
  prefix: string;
  /** True for the copy of a log in another engine. Only a copy may append to a closed log. */
  isCopy?: boolean;
  /**
   * True for a reader that gets what Waybill cannot have written as unreadable events. Every other
   * reader gets LogChanged.
   */
  keepsUnreadable?: boolean;
}

/** Creates the event store in the schema `log` of the installation's own Postgres. */
export function createPostgresLog({
  sql,
  prefix,
  isCopy = false,
  keepsUnreadable = false,
}: PostgresLogOptions): EventStore {
  const subscriptions = createSubscriptions(sql, prefix, keepsUnreadable);
  const { append, fullSince } = createAppend({ sql, prefix, isCopy, subscriptions });

  const readOne = createBatcher(readStreams, { answerWithinMs: null });

  async function readStreams(
    reads: { stream: string; from: number; limit: number }[],
    left: Left,
  ): Promise<StoredEvent[][]> {
    const rows = await retryWhileUnavailable(
      () => sql<(StoredRow & { read: bigint })[]>`
        select r.read, e.position, e.stream, e.revision, e.id, e.type, e.schema_version, e.data,
               e.metadata
          from unnest(${reads.map(({ stream }) => prefix + stream)}::text[],
                      ${reads.map(({ from }) => from)}::integer[],
                      ${reads.map(({ from, limit }) => Math.min(from + limit, ANY_REVISION))}::integer[])
               with ordinality as r(stream, first, beyond, read)
          cross join lateral (
            select * from log.events where stream = r.stream and revision >= r.first and revision < r.beyond) e
         order by r.read, e.revision`,
      left(RETRY_FOR_MS),
    );
    const toStored = keepsUnreadable ? toAnyEvent : toEvent;
    const found: StoredEvent[][] = reads.map(() => []);
    for (const row of rows) found[Number(row.read) - 1]?.push(toStored(row, prefix));
    return found;
  }

  async function remove(
    streams: string[],
    { stream, revision }: { stream: string; revision: number },
  ): Promise<void> {
    await retryWhileUnavailable(
      () => sql`
        select log.remove(
          ${streams.map((name) => prefix + name)}::text[], ${prefix + stream}, ${revision})`,
    );
  }

  async function head(): Promise<bigint | null> {
    const rows = await retryWhileUnavailable(
      () => sql<{ position: bigint }[]>`select position from log.head`,
    );
    return rows[0]?.position || null;
  }

  return {
    engine: 'postgres',
    staleMs: 0,
    append: (stream, expected, events) => append(stream, expected, events),
    appendWith: append,
    read: (stream, from = 0, limit = ANY_REVISION) => readOne({ stream, from, limit }),
    subscribe: subscriptions.subscribe,
    head,
    fullSince,
    remove,
    findPositionFaults: () => findPositionFaults(sql, prefix),
    countRemoved: (after) => countRemoved(sql, after),
    // The order and the limit stand alone: with a filter, a plan could read all events that follow.
    queryNewest: (statement, streams, after, limit) => statement`
      select position, data,
             case when stream ^@ any(${streams.map((stream) => prefix + stream)}::text[])
                  then type end as type
        from (select * from log.events where position > ${after}
               order by position desc limit ${limit}) newest`,
    async close() {
      subscriptions.close();
    },
  };
}
