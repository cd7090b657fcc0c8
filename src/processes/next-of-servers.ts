import type { Fragment, Queryable } from '../adapters/postgres/connect.ts';

/** How many tasks of one kind may run at one server. */
const AT_ONE_SERVER = 4;

/** A table of tasks at servers, with the columns `server`, `due_at`, `tries` and `takes`. */
interface TaskTable {
  name: 'work.cleanups' | 'work.late_looks';
  /** Its primary key. */
  key: Fragment;
  /** The condition that a row `t` may be taken. */
  mayTake: Fragment;
}

/**
 * Returns the CTE `due`: the key of the row that is due, and locks it. `running` names the server of
 * each task that runs. The server with the fewest of them goes first, so one that is slow, or does
 * not answer, holds up no other. A server costs a few look-ups, however many rows it has.
 */
export function nextOfServers(
  sql: Queryable,
  { name, key, mayTake }: TaskTable,
  running: string[],
): Fragment {
  const table = sql(name);
  return sql`
    recursive servers as (
      (select server from ${table} order by server limit 1)
      union all
      select next.server from servers s cross join lateral (
        select server from ${table} t where t.server > s.server order by t.server limit 1) next
    ),
    places as (
      select server, count(used) as used
        from servers left join unnest(${running}::text[]) as used on used = server
       group by server having count(used) < ${AT_ONE_SERVER}
    ),
    -- a subquery may run for each row of the table, and then take others each time
    due as materialized (
      select ${key}
        from places cross join lateral (
               -- another process may lock the first ones
               select ${key} from ${table} t
                where t.server = places.server and t.due_at <= now() and ${mayTake}
                order by t.due_at limit ${AT_ONE_SERVER}) first
        join ${table} t using (${key})
       where t.due_at <= now()
       order by used, t.due_at limit 1 for update of t skip locked
    )`;
}

/**
 * Returns the assignments of a try. It is due again after 1, 2, 4, ... minutes, later once a day.
 * `tries` begins again when the task is scheduled again. `takes` does not, so it identifies a try.
 */
export function newTry(sql: Queryable): Fragment {
  // Without the limit, the power of a large number of tries is no interval.
  return sql`
    tries = tries + 1, takes = takes + 1,
    due_at = now() + least(interval '1 day', interval '1 minute' * power(2, least(tries, 11)))`;
}
