/*
 * The owner of `work.checkpoint_sinks`: what each sink keeps, for other processes to show.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';

/** Whether a sink keeps the last checkpoint. */
export interface SinkState {
  /** Number of events that its last checkpoint covers. Null before the first. */
  size: number | null;
  taken_at: string | null;
  /** Why it did not take the last one. Null if it did. */
  error: string | null;
  /** True if it has a checkpoint that this log does not have. */
  refuses: boolean;
  next_try_at: string | null;
}

/** Records that a sink took a checkpoint. */
export async function saveTaken(sql: Sql, url: string, size: number): Promise<void> {
  await sql`
    insert into work.checkpoint_sinks (url, size, taken_at) values (${url}, ${size}, now())
    on conflict (url) do update set
      size = excluded.size, taken_at = excluded.taken_at,
      error = null, refuses = false, next_try_at = null`;
}

/** Records that a sink did not take a checkpoint. Keeps the size of the last that it took. */
export async function saveFailed(
  sql: Sql,
  url: string,
  { error, refuses, pauseMs }: { error: string; refuses: boolean; pauseMs: number },
): Promise<void> {
  await sql`
    insert into work.checkpoint_sinks (url, error, refuses, next_try_at)
    values (${url}, ${error}, ${refuses}, now() + make_interval(secs => ${pauseMs / 1_000}))
    on conflict (url) do update set
      error = excluded.error, refuses = excluded.refuses, next_try_at = excluded.next_try_at`;
}

/** Removes all sinks but these. */
export async function forgetOthers(sql: Sql, urls: readonly string[]): Promise<void> {
  await sql`delete from work.checkpoint_sinks where url <> all(${[...urls]}::text[])`;
}

/** Returns the states of these sinks, in their order. Null if no process has asked one yet. */
export async function sinkStates(
  sql: Sql,
  urls: readonly string[],
): Promise<{ url: string; state: SinkState | null }[]> {
  const rows = await sql<({ url: string } & SinkState)[]>`
    select url, size::float8 as size, taken_at, error, refuses, next_try_at
      from work.checkpoint_sinks where url = any(${[...urls]}::text[])`;
  const states = new Map(rows.map(({ url, ...state }) => [url, state]));
  return urls.map((url) => ({ url, state: states.get(url) ?? null }));
}
