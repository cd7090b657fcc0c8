import type { Sql } from '../../postgres/connect.ts';
import type { PositionFault } from '../port.ts';

/** Positions that one statement counts: about a tenth of a second. */
const COUNTED = 1_000_000n;

/**
 * Compares the positions of the embedded log with its head. `log.append` gives out positions
 * without a gap, so a position without an event had one. `log.removed` has those that retention
 * left empty. Yields faults from the lowest position up.
 */
export async function* findPositionFaults(sql: Sql): AsyncGenerator<PositionFault> {
  const [{ head } = { head: 0n }] = await sql<{ head: bigint }[]>`
    select position as head from log.head`;
  for (let after = 0n; after < head; after += COUNTED) {
    const upTo = after + COUNTED < head ? after + COUNTED : head;
    const [{ events } = { events: 0n }] = await sql<{ events: bigint }[]>`
      select count(*) as events from log.events where position > ${after} and position <= ${upTo}`;
    if (events === upTo - after) continue;
    const inWindow = sql`int8range(${after}, ${upTo}, '(]')`;
    const gaps = await sql<{ from: bigint; to: bigint }[]>`
      select lower(gap) as from, upper(gap) - 1 as to
        from unnest(
          int8multirange(${inWindow})
          - (select coalesce(range_agg(int8range(position, position, '[]')), '{}')
               from log.events where position > ${after} and position <= ${upTo})
          - (select coalesce(range_agg(positions), '{}')
               from log.removed where positions && ${inWindow})) gap
       order by gap`;
    for (const { from, to } of gaps) yield { from, to, problem: 'missing' };
  }
  const [beyond] = await sql<{ from: bigint | null; to: bigint | null }[]>`
    select min(position) as from, max(position) as to from log.events
     where position > coalesce((select position from log.head), 0)`;
  if (beyond && beyond.from !== null && beyond.to !== null)
    yield { from: beyond.from, to: beyond.to, problem: 'beyond_head' };
}

/** Returns how many positions after this one count as those of removed streams. */
export async function countRemoved(sql: Sql, after: bigint): Promise<number> {
  const [row] = await sql<{ removed: number }[]>`
    select coalesce(sum(upper(beyond) - lower(beyond)), 0)::float8 as removed
      from (select positions * int8range(${after}, null, '()') as beyond from log.removed) r`;
  return row?.removed ?? 0;
}
