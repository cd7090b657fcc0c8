/*
 * Counts of jobs and the progress of attempts, for people and estimates.
 */
import type { Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import {
  type AttemptFigures,
  PRIORITIES,
  type Priority,
} from '../../../domain/transfers/transfer.ts';
import { PRIORITY_OFFSET_MS } from '../decide.ts';

/** Jobs beyond this number are not counted: an estimate hours ahead need not be exact. */
const JOBS_COUNTED_TO = 100_000;

export interface FigureColumns {
  transferred_bytes: bigint;
  size_bytes: bigint | null;
  speed_bps: bigint | null;
}

export function toFigures(row: FigureColumns): AttemptFigures {
  const { transferred_bytes, size_bytes, speed_bps } = row;
  return {
    transferred_bytes: Number(transferred_bytes),
    size_bytes: size_bytes === null ? null : Number(size_bytes),
    speed_bps: speed_bps === null ? null : Number(speed_bps),
  };
}

/** Returns the progress of the current attempt of a transfer. Null without an attempt. */
export async function progressOf(sql: Sql, transferId: string): Promise<AttemptFigures | null> {
  const [row] = await sql<FigureColumns[]>`
    select transferred_bytes, size_bytes, speed_bps from work.transfer_jobs
     where transfer_id = ${transferId} and claim_id is not null`;
  return row ? toFigures(row) : null;
}

/** Returns the number of transfers that are due and wait for a mover. */
export async function countDueJobs(sql: Sql): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*)::integer as waiting
      from work.transfer_jobs where claim_id is null and due_at <= now()`;
  return row.waiting;
}

export interface QueueDepth {
  priority: Priority;
  /** Transfers that wait for a mover. */
  due: number;
  /** Transfers that wait for their next attempt. */
  later: number;
  moving: number;
  /** Bits per second of the moving transfers together. */
  speed_bps: number;
}

/** Returns the waiting and moving transfers of each priority. */
export async function queueDepth(sql: Sql): Promise<QueueDepth[]> {
  const rows = await sql<QueueDepth[]>`
    select priority, count(*) filter (where claim_id is null and due_at <= now())::float8 as due,
           count(*) filter (where claim_id is null and due_at > now())::float8 as later,
           count(claim_id)::float8 as moving,
           coalesce(sum(speed_bps) filter (where claim_id is not null), 0)::float8 as speed_bps
      from work.transfer_jobs group by priority`;
  const none = { due: 0, later: 0, moving: 0, speed_bps: 0 };
  return PRIORITIES.map(
    (priority) => rows.find((row) => row.priority === priority) ?? { priority, ...none },
  );
}

/** Selects one row: `waiting` and `moving` transfers. */
export function jobTotals(sql: Queryable) {
  return sql`
    select count(*) filter (where claim_id is null and due_at <= now())::integer as waiting,
           count(claim_id)::integer as moving
      from work.transfer_jobs`;
}

/**
 * Selects one row: the waiting transfers as `queued`, and as `ahead`, by priority, those that come
 * before a new transfer. Those at an endpoint without a free place do not: movers pass them over.
 * They come before a transfer to the same endpoint: `full` has them by endpoint, with its `places`,
 * without paused endpoints. The statement has the CTEs of `placesOfEndpoints`.
 */
export function jobsAhead(sql: Queryable) {
  const before = PRIORITIES.map(
    (priority) => sql`${priority}::text, count(*) filter (
      where due and rank <= now() + ${PRIORITY_OFFSET_MS[priority]} * interval '1 millisecond')`,
  );
  const ahead = sql`jsonb_build_object(${before.reduce((list, pair) => sql`${list}, ${pair}`)})`;
  return sql`
    waiting as materialized (
      select rank, claim_id is null and due_at <= now() as due,
             array[source_endpoint_id, destination_endpoint_id] as endpoints
        from work.transfer_jobs
       where status <> 'in_progress' limit ${JOBS_COUNTED_TO}
    )
    select count(*)::float8 as queued,
           (select ${ahead} from waiting
             where (endpoints && (select ids from closed)) is not true) as ahead,
           (select coalesce(jsonb_object_agg(endpoint_id, jsonb_build_object('places', places,
                                                                            'ahead', ahead)), '{}')
              from (select endpoint_id, places, ${ahead} as ahead
                      from places left join waiting on endpoint_id = any(endpoints)
                     where not paused and in_use >= places
                     group by endpoint_id, places) e) as full
      from waiting`;
}
