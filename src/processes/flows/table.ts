/*
 * The owner of `work.flow_looks` and `work.flow_sightings`: when each flow was last listed, and
 * since when each waiting file has not changed. Neither decides whether a file was taken: a lost
 * row only makes a flow look sooner, or a file wait longer.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';

export interface Look {
  began_at: string;
  succeeded_at: string | null;
  waiting: number;
  look_again_at: string | null;
}

/** Returns the last look of each flow that has one, by flow. */
export async function lastLooks(sql: Sql, flowIds: string[]): Promise<Map<string, Look>> {
  const rows = await sql<(Look & { flow_id: string })[]>`
    select flow_id, began_at, succeeded_at, waiting, look_again_at
      from work.flow_looks where flow_id = any(${flowIds}::text[])`;
  return new Map(rows.map(({ flow_id, ...look }) => [flow_id, look]));
}

/**
 * Records how a listing ended. One that failed keeps the time of the last success. `failing` has the
 * folders that it could not list; null keeps those of the last whole listing.
 */
export async function saveLook(
  sql: Sql,
  flowId: string,
  look: Look,
  failing: string[] | null = null,
): Promise<void> {
  const { began_at, succeeded_at, waiting, look_again_at } = look;
  await sql`
    insert into work.flow_looks (flow_id, began_at, succeeded_at, waiting, look_again_at, failing)
    values (${flowId}, ${began_at}, ${succeeded_at}, ${waiting}, ${look_again_at},
            ${failing}::text[])
    on conflict (flow_id) do update set
      began_at = excluded.began_at, waiting = excluded.waiting,
      succeeded_at = coalesce(excluded.succeeded_at, flow_looks.succeeded_at),
      look_again_at = excluded.look_again_at,
      failing = coalesce(excluded.failing, flow_looks.failing)`;
}

/** Lets a flow look at a time, an RFC 3339 text, unless it looks earlier. */
export async function lookBy(sql: Sql, flowId: string, time: string): Promise<void> {
  await sql`
    update work.flow_looks set look_again_at = least(look_again_at, ${time})
     where flow_id = ${flowId}`;
}

/** Returns the folders that the last whole listing of a flow could not list. */
export async function failingFolders(sql: Sql, flowId: string): Promise<string[]> {
  const [row] = await sql<{ failing: string[] | null }[]>`
    select failing from work.flow_looks where flow_id = ${flowId}`;
  return row?.failing ?? [];
}

/**
 * Records that versions of files were seen, and returns for how many milliseconds each has been.
 * With `remember` false it only returns those that were seen before.
 */
export async function sightFiles(
  sql: Sql,
  flowId: string,
  keys: string[],
  remember: boolean,
): Promise<Map<string, number>> {
  if (keys.length === 0) return new Map();
  const age = sql`(extract(epoch from now() - first_seen_at) * 1000)::float8 as age`;
  const rows = remember
    ? await sql<{ file_key: string; age: number }[]>`
        insert into work.flow_sightings (flow_id, file_key)
        select ${flowId}, file_key from unnest(${[...new Set(keys)].sort()}::text[]) as k(file_key)
        on conflict (flow_id, file_key) do update set seen_at = now()
        returning file_key, ${age}`
    : await sql<{ file_key: string; age: number }[]>`
        select file_key, ${age} from work.flow_sightings
         where flow_id = ${flowId} and file_key = any(${keys}::text[])`;
  return new Map(rows.map(({ file_key, age: ms }) => [file_key, ms]));
}

/** Removes the sightings of a flow that no listing has repeated for `unseenMs`. */
export async function forgetUnseen(sql: Sql, flowId: string, unseenMs: number): Promise<void> {
  await sql`
    delete from work.flow_sightings
     where flow_id = ${flowId} and seen_at < now() - ${unseenMs} * interval '1 millisecond'`;
}

/** Lets the first run of a flow come at once. */
export async function forgetLook(sql: Sql, flowId: string): Promise<void> {
  await sql`delete from work.flow_looks where flow_id = ${flowId}`;
}

export interface FlowFigures {
  flow_id: string;
  name: string;
  waiting: number;
  /** In seconds since 1970. Null if there was none. */
  last_run: number | null;
  last_success: number | null;
}

/** Returns the figures of all active flows, of every account. */
export async function flowFigures(sql: Sql): Promise<FlowFigures[]> {
  return sql<FlowFigures[]>`
    select flow_id, f.state ->> 'name' as name, coalesce(waiting, 0) as waiting,
           extract(epoch from began_at)::float8 as last_run,
           extract(epoch from succeeded_at)::float8 as last_success
      from read.flows f left join work.flow_looks using (flow_id) where f.status = 'active'`;
}

/** Removes what is known about removed flows. */
export async function forgetRemovedFlows(sql: Sql): Promise<void> {
  await sql`
    with removed as (select flow_id from read.flows where status = 'removed'),
         looks as (delete from work.flow_looks l using removed r where r.flow_id = l.flow_id)
    delete from work.flow_sightings s using removed r where r.flow_id = s.flow_id`;
}
