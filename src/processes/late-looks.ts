/*
 * The owner of `work.late_looks`: one row for each end of a transfer at which a server may carry
 * out a request late, after Waybill has given up the connection. The network was silent then, or the
 * process was killed or frozen. A late request may create a part again, or hide a file under a name
 * of the transfer. Nothing tells when. So the mover looks again and again for a day
 * (src/processes/mover/cleanup.ts).
 *
 * A row is written before anything else follows from the lost connection, so no crash loses it. It
 * waits while the transfer is open, and while its clean-up or the steps after it are left.
 */
import type { Fragment, Queryable, Sql } from '../adapters/postgres/connect.ts';

/** Looks after 1, 4, 16, 64, 256 and 1,024 minutes, each counted from the one before. */
export const LOOKS = 6;

export interface LateLook {
  transfer_id: string;
  side: 'source' | 'destination';
  account_id: string;
  uri: string;
  /** Of a source: `{tried}`, see `dispose`. Of a destination: its resume record, or null. */
  state: unknown;
  /** Tries of this look, with the current one. */
  tries: number;
}

/**
 * Returns a statement that schedules looks, again if some have taken place. `rows` selects what
 * `LateLook` has, without `tries`.
 */
export function scheduledLooks(sql: Queryable, rows: Fragment) {
  return sql`
    insert into work.late_looks as l (transfer_id, side, account_id, uri, state) ${rows}
    on conflict (transfer_id, side) do update set
      state = coalesce(excluded.state, l.state), due_at = excluded.due_at, looks = 0, tries = 0`;
}

/**
 * Takes up to `limit` looks that are due, oldest first, and that `mayLook` allows. One that fails
 * is due again after 1, 2, 4, ... minutes, later once a day. Leaves out URIs that begin with one of
 * `avoided`.
 */
export async function takeDueLooks(
  sql: Sql,
  limit: number,
  avoided: string[],
  mayLook: Fragment,
): Promise<LateLook[]> {
  return sql<LateLook[]>`
    -- a subquery may run for each row of the table, and then take others each time
    with due as materialized (
      select transfer_id, side from work.late_looks l
       where due_at <= now() and ${mayLook}
         and not exists (
           select from unnest(${avoided}::text[]) server where starts_with(uri, server))
       order by due_at limit ${limit} for update skip locked
    )
    update work.late_looks l
       set tries = tries + 1,
           due_at = now() + least(interval '1 day', interval '1 minute' * power(2, tries))
      from due where (l.transfer_id, l.side) = (due.transfer_id, due.side)
    returning l.transfer_id, l.side, account_id, uri, state, tries`;
}

/** Ends a look, and schedules the next one. Does nothing if they were scheduled again. */
export async function endLook(sql: Sql, { transfer_id, side, tries }: LateLook): Promise<void> {
  await sql`
    with ended as (
      update work.late_looks
         set looks = looks + 1, tries = 0,
             due_at = now() + interval '1 minute' * power(4, looks + 1)
       where transfer_id = ${transfer_id} and side = ${side} and tries = ${tries}
         and looks + 1 < ${LOOKS}
      returning transfer_id
    )
    delete from work.late_looks
     where transfer_id = ${transfer_id} and side = ${side} and tries = ${tries}
       and not exists (select from ended)`;
}

/** Removes looks that are not tried again. */
export async function giveUpLooks(sql: Sql, { transfer_id, side }: LateLook): Promise<void> {
  await sql`delete from work.late_looks where transfer_id = ${transfer_id} and side = ${side}`;
}
