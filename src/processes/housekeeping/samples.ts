import type { Sql } from '../../adapters/postgres/connect.ts';
import { jobTotals } from '../dispatch/job-table/figures.ts';
import { totalMoved } from '../dispatch/live-movers.ts';

const SAMPLES_KEPT_DAYS = 8;

/** Selects one row: totals since the installation began, and the current figures. */
const currentFigures = (sql: Sql) => sql`
  select created, completed, failed, cancelled, waiting, moving, moved_bytes
    from (select coalesce(sum(transfers), 0)::bigint as created,
                 coalesce(sum(transfers) filter (where status = 'completed'), 0)::bigint
                   as completed,
                 coalesce(sum(transfers) filter (where status = 'failed'), 0)::bigint as failed,
                 coalesce(sum(transfers) filter (where status = 'cancelled'), 0)::bigint
                   as cancelled
            from read.transfer_totals) totals,
         (${jobTotals(sql)}) jobs,
         (${totalMoved(sql)}) moved`;

/** Saves the figures of this minute, at most once, and deletes samples older than eight days. */
export async function takeSample(sql: Sql): Promise<void> {
  await sql`
    insert into work.samples
      (at, created, completed, failed, cancelled, waiting, moving, moved_bytes)
    select date_trunc('minute', now()), * from (${currentFigures(sql)}) figures
    on conflict do nothing`;
  await sql`delete from work.samples where at < now() - ${SAMPLES_KEPT_DAYS} * interval '1 day'`;
}

export interface Span {
  /** When the span begins, ISO 8601. */
  at: string;
  seconds: number;
  created: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Maximum of transfers that were due and waited for a mover. */
  waiting: number;
  /** Maximum of transfers in progress. */
  moving: number;
  /** Bytes that destinations acknowledged. */
  moved_bytes: number;
  /** Average speed of all transfers together, in bits per second. */
  speed_bps: number;
}

/** Returns the last `hours` in spans of `minutes`, oldest first. Omits spans without samples. */
export async function operationsSeries(sql: Sql, hours: number, minutes: number): Promise<Span[]> {
  return sql<Span[]>`
    with samples as (
      select at, created, completed, failed, cancelled, waiting, moving, moved_bytes
        from work.samples
       where at >= now() - ${hours} * interval '1 hour' - interval '5 minutes'
      union all
      select now(), * from (${currentFigures(sql)}) figures
    ),
    steps as (
      select at, created - lag(created) over w as created,
             completed - lag(completed) over w as completed,
             failed - lag(failed) over w as failed, cancelled - lag(cancelled) over w as cancelled,
             waiting, moving, greatest(0, moved_bytes - lag(moved_bytes) over w) as moved_bytes,
             extract(epoch from at - lag(at) over w) as took
        from samples window w as (order by at)
    )
    select date_bin(${minutes} * interval '1 minute', at, 'epoch') as at,
           ${minutes * 60}::integer as seconds,
           greatest(0, sum(created))::float8 as created,
           greatest(0, sum(completed))::float8 as completed,
           greatest(0, sum(failed))::float8 as failed,
           greatest(0, sum(cancelled))::float8 as cancelled,
           max(waiting) as waiting, max(moving) as moving,
           coalesce(sum(moved_bytes), 0)::float8 as moved_bytes,
           coalesce(sum(moved_bytes) * 8 / nullif(sum(took), 0), 0)::float8 as speed_bps
      from steps where created is not null and at >= now() - ${hours} * interval '1 hour'
     group by 1 order by 1`;
}
