import type { Sql } from '../adapters/postgres/connect.ts';
import { PRIORITIES, type Priority } from '../domain/transfer.ts';
import { MOVERS_SEEN_WITHIN_S } from './outlook.ts';

const SAMPLES_KEPT_DAYS = 8;

/** Totals since ever, and figures of this moment: one row. */
const now = (sql: Sql) => sql`
  select created, completed, failed, cancelled, waiting, moving, speed_bps
    from (select coalesce(sum(transfers), 0)::bigint as created,
                 coalesce(sum(transfers) filter (where status = 'completed'), 0)::bigint as completed,
                 coalesce(sum(transfers) filter (where status = 'failed'), 0)::bigint as failed,
                 coalesce(sum(transfers) filter (where status = 'cancelled'), 0)::bigint as cancelled
            from read.transfer_totals) totals,
         (select count(*) filter (where claim_id is null and due_at <= now())::integer as waiting,
                 count(claim_id)::integer as moving,
                 coalesce(sum(speed_bps) filter (where claim_id is not null), 0)::bigint as speed_bps
            from work.transfer_jobs) jobs`;

/** Notes how the installation stands in this minute, once, and forgets what is older than eight days. */
export async function takeSample(sql: Sql): Promise<void> {
  await sql`
    insert into work.samples (at, created, completed, failed, cancelled, waiting, moving, speed_bps)
    select date_trunc('minute', now()), * from (${now(sql)}) figures on conflict do nothing`;
  await sql`delete from work.samples where at < now() - ${SAMPLES_KEPT_DAYS} * interval '1 day'`;
}

export interface Span {
  /** When it begins. */
  at: string;
  seconds: number;
  created: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Due and waiting for a mover, at most. */
  waiting: number;
  /** In progress, at most. */
  moving: number;
  /** Of all together, on average, in bits per second. */
  speed_bps: number;
}

/** The last hours up to now in spans of so many minutes, oldest first; those of which nothing was noted are left out. */
export async function operationsSeries(sql: Sql, hours: number, minutes: number): Promise<Span[]> {
  return sql<Span[]>`
    with samples as (
      select * from work.samples where at >= now() - ${hours} * interval '1 hour' - interval '5 minutes'
      union all
      select now(), * from (${now(sql)}) figures
    ),
    steps as (
      select at, created - lag(created) over w as created, completed - lag(completed) over w as completed,
             failed - lag(failed) over w as failed, cancelled - lag(cancelled) over w as cancelled, waiting, moving, speed_bps
        from samples window w as (order by at)
    )
    select date_bin(${minutes} * interval '1 minute', at, 'epoch') as at, ${minutes * 60}::integer as seconds,
           greatest(0, sum(created))::float8 as created, greatest(0, sum(completed))::float8 as completed,
           greatest(0, sum(failed))::float8 as failed, greatest(0, sum(cancelled))::float8 as cancelled,
           max(waiting) as waiting, max(moving) as moving, avg(speed_bps)::float8 as speed_bps
      from steps where created is not null and at >= now() - ${hours} * interval '1 hour'
     group by 1 order by 1`;
}

export interface MoverStatus {
  id: string;
  slots: number;
  active: number;
  mean_duration_ms: number | null;
  started_at: string;
  seen_at: string;
}

/** Mover processes that live, oldest first. */
export async function liveMovers(sql: Sql): Promise<MoverStatus[]> {
  return sql<MoverStatus[]>`
    select process_id as id, slots, active, mean_duration_ms, started_at, seen_at from work.movers
     where seen_at > now() - ${MOVERS_SEEN_WITHIN_S} * interval '1 second' order by started_at, process_id`;
}

export interface QueueDepth {
  priority: Priority;
  /** Waiting for a mover. */
  due: number;
  /** Waiting for their next attempt. */
  later: number;
  moving: number;
  /** Bits per second of those that move. */
  speed_bps: number;
}

/** What waits and what moves, of each priority. */
export async function queueDepth(sql: Sql): Promise<QueueDepth[]> {
  const rows = await sql<QueueDepth[]>`
    select priority, count(*) filter (where claim_id is null and due_at <= now())::float8 as due,
           count(*) filter (where claim_id is null and due_at > now())::float8 as later,
           count(claim_id)::float8 as moving, coalesce(sum(speed_bps) filter (where claim_id is not null), 0)::float8 as speed_bps
      from work.transfer_jobs group by priority`;
  return PRIORITIES.map(
    (priority) => rows.find((row) => row.priority === priority) ?? { priority, due: 0, later: 0, moving: 0, speed_bps: 0 },
  );
}
