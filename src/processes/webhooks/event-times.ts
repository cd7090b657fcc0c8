/*
 * The owner of `work.event_times`: the first position of each hour in the log. A replay from a time
 * starts there.
 */
import type { Fragment, Queryable, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { loadCheckpoint } from '../../projections/checkpoint.ts';

/** Returns where each hour begins in the log. Clocks differ, so two hours can overlap. */
export function hoursOf(events: StoredEvent[]): Map<string, bigint> {
  const first = new Map<string, bigint>();
  for (const { metadata, position } of events) {
    const hour = `${metadata.occurred_at.slice(0, 13)}:00:00Z`;
    if (!first.has(hour)) first.set(hour, position);
  }
  return first;
}

/** Saves the first positions of hours. Keeps those that are known. */
export async function saveHours(tx: Transaction, hours: Map<string, bigint>): Promise<void> {
  await tx`with moved as (select) ${savedHours(tx, hours)} select`;
}

/** Returns the CTE that does the same, if the CTE `moved` has a row. */
export function savedHours(sql: Queryable, hours: Map<string, bigint>): Fragment {
  return sql`
    , hours as (
      insert into work.event_times (hour, position)
      select hour::timestamptz, position
        from moved, unnest(${[...hours.keys()]}::text[],
                           ${[...hours.values()].map(String)}::bigint[]) as m(hour, position)
      on conflict do nothing
    )`;
}

/** Removes all hours, before a rebuild. */
export async function forgetHours(tx: Transaction): Promise<void> {
  await tx`delete from work.event_times`;
}

/** Returns a position before all events at a time (epoch ms) or later. 0 for the start. */
export async function positionBefore(sql: Sql, time: number): Promise<bigint> {
  // The outbox records the first position of each hour. A start after the mark before it does not
  // miss the first event of the hour: an engine may have no position between two events.
  const [row] = await sql<[{ later: boolean; position: bigint | null }]>`
    with first as (
      select min(position) as position from work.event_times
       where hour >= date_trunc('hour', ${new Date(time)}::timestamptz)
    )
    select first.position is not null as later,
           (select max(position) from work.event_times m where m.position < first.position)
             as position
      from first`;
  if (row.later) return row.position ?? 0n;
  return (await loadCheckpoint(sql, 'work.checkpoints', 'outbox'))?.position ?? 0n;
}
