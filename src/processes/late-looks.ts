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
import { newTry, nextOfServers } from './next-of-servers.ts';

/** Looks after 1, 4, 16, 64, 256 and 1,024 minutes, each counted from the one before. */
export const LOOKS = 6;

export interface LateLook {
  transfer_id: string;
  side: 'source' | 'destination';
  account_id: string;
  uri: string;
  /** Of a source: `{tried}`, see `dispose`. Of a destination: its resume record, or null. */
  state: unknown;
  /** See `nextOfServers`. */
  server: string;
  /** Tries of this look, with the current one. */
  tries: number;
  /** Identifies the current try. */
  takes: number;
}

/**
 * Returns a statement that schedules looks, again if some have taken place. `rows` selects
 * `transfer_id`, `side`, `account_id`, `uri` and `state`.
 */
export function scheduledLooks(sql: Queryable, rows: Fragment) {
  return sql`
    insert into work.late_looks as l (transfer_id, side, account_id, uri, state) ${rows}
    on conflict (transfer_id, side) do update set
      state = coalesce(excluded.state, l.state), due_at = excluded.due_at, looks = 0, tries = 0`;
}

/** Takes a look that is due and that `mayTake` allows: see `nextOfServers`. Null if there is none. */
export async function takeDueLook(
  sql: Sql,
  running: string[],
  mayTake: Fragment,
): Promise<LateLook | null> {
  const key = sql`transfer_id, side`;
  const [look] = await sql<LateLook[]>`
    with ${nextOfServers(sql, { name: 'work.late_looks', key, mayTake }, running)}
    update work.late_looks l set ${newTry(sql)}
      from due where (l.transfer_id, l.side) = (due.transfer_id, due.side)
    returning l.transfer_id, l.side, account_id, uri, server, state, tries, takes`;
  return look ?? null;
}

/** Ends a look, and schedules the next one. Does nothing if they were scheduled again. */
export async function endLook(sql: Sql, look: LateLook): Promise<void> {
  await sql`
    with ended as (
      update work.late_looks
         set looks = looks + 1, tries = 0,
             due_at = now() + interval '1 minute' * power(4, looks + 1)
       where ${isTried(sql, look)} and looks + 1 < ${LOOKS}
      returning transfer_id
    )
    delete from work.late_looks
     where ${isTried(sql, look)} and not exists (select from ended)`;
}

/** Removes looks that are not tried again. Does nothing if they were scheduled again. */
export async function giveUpLooks(sql: Sql, look: LateLook): Promise<void> {
  await sql`delete from work.late_looks where ${isTried(sql, look)}`;
}

/** Returns the condition that a row is still the one of this try. */
function isTried(sql: Sql, { transfer_id, side, takes }: LateLook): Fragment {
  return sql`transfer_id = ${transfer_id} and side = ${side} and takes = ${takes} and tries > 0`;
}
