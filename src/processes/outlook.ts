import type { Sql } from '../adapters/postgres/connect.ts';
import { createBatcher } from '../batcher.ts';
import type { CommandDeps } from '../commands/deps.ts';
import type { Endpoint } from '../domain/endpoint.ts';
import type { Priority } from '../domain/transfer.ts';
import { PRIORITY_OFFSET_MS } from './jobs.ts';

/** A mover process that has not been seen for so long is not counted on. */
export const MOVERS_SEEN_WITHIN_S = 15;
const FIRST_GUESS_MS = 1_000;
/** An estimate that is hours away need not be exact. */
const COUNTED_AT_MOST = 100_000;

/**
 * What lies before a transfer that is created now: the endpoints, the account's open transfers, and the work that comes
 * before it, spread over the movers, from what transfers took lately; 0 milliseconds where a mover is free. One
 * look for all who ask at the same moment. The endpoints come along only where the catalog has changed since the last.
 */
export function createOutlook(sql: Sql): CommandDeps['outlook'] {
  let catalog: Catalog = { version: '', endpoints: [] };

  const look = createBatcher(async (asked: { accountId: string; priority: Priority }[]) => {
    const row = await lookAround(sql, [...new Set(asked.map(({ accountId }) => accountId))], catalog.version);
    if (row.endpoints !== null) catalog = { version: row.version, endpoints: row.endpoints };
    const { endpoints } = catalog;
    return asked.map(({ accountId, priority }) => ({
      endpoints,
      openTransfers: row.open[accountId] ?? 0,
      startsInMs: startsInMs(row, priority),
    }));
  });
  return (accountId, priority) => look({ accountId, priority });
}

/** The last event that the catalog shows, and in which table it does: a rebuild makes another. */
interface Catalog {
  version: string;
  endpoints: Endpoint[];
}

interface Row {
  version: string;
  /** null where they are those of the known version. */
  endpoints: Endpoint[] | null;
  /** By account. */
  open: Record<string, number>;
  /** Open transfers of all accounts that nobody moves. */
  waiting: number;
  /** Those of them that have their to-do row. */
  queued: number;
  /** Those that come before a new one of this priority. */
  ahead: Record<Priority, number>;
  slots: number;
  active: number;
  mean_ms: number | null;
}

async function lookAround(sql: Sql, accounts: string[], known: string): Promise<Row> {
  const before = (priority: Priority) =>
    sql`count(*) filter (where due and rank <= now() + ${PRIORITY_OFFSET_MS[priority]} * interval '1 millisecond')`;
  const [row] = await sql<[Row]>`
    select c.version, e.endpoints, o.open, o.waiting, j.queued, j.ahead, m.slots, m.active, m.mean_ms
      from (select concat_ws(' ', to_regclass('read.endpoints')::oid, (select event_id from read.checkpoints where name = 'catalog')) as version) c,
           lateral (select case when c.version <> ${known} then
                      (select coalesce(jsonb_agg(state order by name), '[]') from read.endpoints where not removed) end as endpoints) e,
           (select coalesce(jsonb_object_agg(account_id, open) filter (where account_id = any(${accounts}::text[])), '{}') as open,
                   coalesce(sum(waiting), 0)::float8 as waiting
              from (select account_id, sum(transfers) as open, sum(transfers) filter (where status <> 'in_progress') as waiting
                      from read.transfer_counts where status in ('pending', 'queued', 'in_progress') and transfers <> 0
                     group by account_id) accounts) o,
           (select count(*)::float8 as queued,
                   jsonb_build_object('high', ${before('high')}, 'normal', ${before('normal')}, 'low', ${before('low')}) as ahead
              from (select rank, claim_id is null and due_at <= now() as due
                      from work.transfer_jobs where status <> 'in_progress' limit ${COUNTED_AT_MOST}) waiting) j,
           (select coalesce(sum(slots), 0)::float8 as slots, coalesce(sum(active), 0)::float8 as active, avg(mean_duration_ms) as mean_ms
              from work.movers where seen_at > now() - ${MOVERS_SEEN_WITHIN_S} * interval '1 second') m`;
  return row;
}

function startsInMs({ waiting, queued, ahead, slots, active, mean_ms }: Row, priority: Priority): number {
  // What was created a moment ago may not have its to-do row yet.
  const before = ahead[priority] + Math.max(0, waiting - queued);
  const free = Math.max(0, slots - active);
  if (before < free) return 0;
  const rounds = (before - free + 1) / Math.max(1, slots);
  return Math.round(rounds * (mean_ms ?? FIRST_GUESS_MS));
}
