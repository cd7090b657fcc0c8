import type { Fragment, Sql } from '../../postgres/connect.ts';
import type { PositionFault } from '../port.ts';

/** Positions that one statement counts: less than a second. */
const COUNTED = 1_000_000n;

/**
 * Compares the positions of the embedded log with its head. `log.append` gives out positions
 * without a gap, so a position without an event had one. `log.removed` has those that retention
 * left empty. The schema `log` has one log, so each event has its prefix. Yields the faults in the
 * order of their positions, those of a prefix last.
 */
export async function* findPositionFaults(sql: Sql, prefix: string): AsyncGenerator<PositionFault> {
  const [{ head } = { head: 0n }] = await sql<{ head: bigint }[]>`
    select position as head from log.head`;
  yield* hidden('before_start', sql`position < 1`);
  let others = 0n;
  for (let after = 0n; after < head; after += COUNTED) {
    const upTo = after + COUNTED < head ? after + COUNTED : head;
    const [{ events, foreign } = { events: 0n, foreign: 0n }] = await sql<
      { events: bigint; foreign: bigint }[]
    >`
      select count(*) as events, count(*) filter (where not stream ^@ ${prefix}) as foreign
        from log.events where position > ${after} and position <= ${upTo}`;
    others += foreign;
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
  yield* hidden('beyond_head', sql`position > coalesce((select position from log.head), 0)`);
  if (others > 0n) yield* hidden('other_prefix', sql`not stream ^@ ${prefix}`);

  async function* hidden(
    problem: PositionFault['problem'],
    condition: Fragment,
  ): AsyncGenerator<PositionFault> {
    const ranges = await sql<{ from: bigint; to: bigint }[]>`
      select lower(positions) as from, upper(positions) - 1 as to
        from unnest((select range_agg(int8range(position, position, '[]'))
                       from log.events where ${condition})) positions
       order by positions`;
    for (const { from, to } of ranges) yield { from, to, problem };
  }
}

/** Returns how many positions after this one count as those of removed streams. */
export async function countRemoved(sql: Sql, after: bigint): Promise<number> {
  const [row] = await sql<{ removed: number }[]>`
    select coalesce(sum(upper(beyond) - lower(beyond)), 0)::float8 as removed
      from (select positions * int8range(${after}, null, '()') as beyond from log.removed) r`;
  return row?.removed ?? 0;
}
