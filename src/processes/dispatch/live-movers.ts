/*
 * The owner of `work.movers`, one row for each mover process, and of `work.moved_bytes`: for
 * estimates and for people.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';

/** A mover process that was last seen longer ago does not count. */
const SEEN_WITHIN_S = 15;
/** A mover process that ended without a word is removed after this time. */
const LOST_AFTER_HOURS = 1;

const live = (sql: Queryable) => sql`seen_at > now() - ${SEEN_WITHIN_S} * interval '1 second'`;

/** Returns the CTE `moved`: it adds bytes to those that all movers have moved. */
const addMoved = (sql: Queryable, bytes: number) =>
  sql`moved as (update work.moved_bytes set bytes = bytes + ${bytes}::bigint where ${bytes > 0})`;

export interface MoverReport {
  processId: string;
  slots: number;
  active: number;
  /** Mean duration of its attempts. */
  meanDurationMs: number | null;
  /** Bytes since the report before. */
  movedBytes: number;
}

/** Records that a mover process lives, and adds what it has moved to the total. */
export async function reportMover(sql: Sql, mover: MoverReport): Promise<void> {
  await sql`
    with ${addMoved(sql, mover.movedBytes)}
    insert into work.movers (process_id, slots, active, mean_duration_ms)
    values (${mover.processId}, ${mover.slots}, ${mover.active}, ${mover.meanDurationMs})
    on conflict (process_id) do update set
      slots = excluded.slots, active = excluded.active,
      mean_duration_ms = excluded.mean_duration_ms, seen_at = now()`;
}

/** Removes a mover process that has ended, and counts the bytes since its last report. */
export async function removeMover(sql: Sql, processId: string, movedBytes: number): Promise<void> {
  await sql`with ${addMoved(sql, movedBytes)} delete from work.movers where process_id = ${processId}`;
}

/** Removes mover processes that ended without a word. */
export async function removeLostMovers(sql: Sql): Promise<void> {
  await sql`delete from work.movers where seen_at < now() - ${LOST_AFTER_HOURS} * interval '1 hour'`;
}

/** Selects one row: `slots`, `active` attempts and `mean_ms` of all live movers together. */
export function moverCapacity(sql: Queryable) {
  return sql`
    select coalesce(sum(slots), 0)::float8 as slots, coalesce(sum(active), 0)::float8 as active,
           avg(mean_duration_ms) as mean_ms
      from work.movers where ${live(sql)}`;
}

/** Selects one row: `moved_bytes` of all movers since the installation began. */
export function totalMoved(sql: Queryable) {
  return sql`select bytes as moved_bytes from work.moved_bytes`;
}

/** Selects `process_id` and `slots` of the live mover processes. */
export function moverSlots(sql: Queryable) {
  return sql`select process_id, slots from work.movers where ${live(sql)}`;
}

export interface MoverStatus {
  id: string;
  slots: number;
  active: number;
  mean_duration_ms: number | null;
  started_at: string;
  seen_at: string;
}

/** Returns the live mover processes, oldest first. */
export async function liveMovers(sql: Sql): Promise<MoverStatus[]> {
  return sql<MoverStatus[]>`
    select process_id as id, slots, active, mean_duration_ms, started_at, seen_at
      from work.movers where ${live(sql)} order by started_at, process_id`;
}
