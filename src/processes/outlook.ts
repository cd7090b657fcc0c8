import type { Sql } from '../adapters/postgres/connect.ts';
import type { Outlook } from '../commands/deps.ts';
import type { Priority } from '../domain/transfer.ts';
import { PRIORITY_OFFSET_MS } from './jobs.ts';

/** A mover process that has not been seen for so long is not counted on. */
export const MOVERS_SEEN_WITHIN_S = 15;
const FIRST_GUESS_MS = 1_000;
/** An estimate that is hours away need not be exact. */
const COUNTED_AT_MOST = 100_000;

/**
 * What lies before a transfer that is created now: the work that comes before it, spread over the movers,
 * from what transfers took lately. 0 milliseconds where a mover is free.
 */
export async function queueOutlook(sql: Sql, accountId: string, priority: Priority): Promise<Outlook> {
  const [row] = await sql<Row[]>`
    select o.open, o.waiting, j.queued, j.ahead, m.slots, m.active, m.mean_ms
      from (select coalesce(sum(transfers) filter (where account_id = ${accountId}), 0)::float8 as open,
                   coalesce(sum(transfers) filter (where status <> 'in_progress'), 0)::float8 as waiting
              from read.transfer_counts where status in ('pending', 'queued', 'in_progress') and transfers <> 0) o,
           (select count(*)::float8 as queued,
                   count(*) filter (where claim_id is null and due_at <= now()
                                    and rank <= now() + ${PRIORITY_OFFSET_MS[priority]} * interval '1 millisecond')::float8 as ahead
              from (select rank, due_at, claim_id from work.transfer_jobs where status <> 'in_progress' limit ${COUNTED_AT_MOST}) waiting) j,
           (select coalesce(sum(slots), 0)::float8 as slots, coalesce(sum(active), 0)::float8 as active, avg(mean_duration_ms) as mean_ms
              from work.movers where seen_at > now() - ${MOVERS_SEEN_WITHIN_S} * interval '1 second') m`;
  const { open, waiting, queued, ahead, slots, active, mean_ms } = row as Row;
  // What was created a moment ago may not have its to-do row yet.
  const before = ahead + Math.max(0, waiting - queued);
  const free = Math.max(0, slots - active);
  if (before < free) return { openTransfers: open, startsInMs: 0 };
  const rounds = (before - free + 1) / Math.max(1, slots);
  return { openTransfers: open, startsInMs: Math.round(rounds * (mean_ms ?? FIRST_GUESS_MS)) };
}

interface Row {
  open: number;
  waiting: number;
  queued: number;
  ahead: number;
  slots: number;
  active: number;
  mean_ms: number | null;
}
