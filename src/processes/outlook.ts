import type { Sql } from '../adapters/postgres/connect.ts';
import type { Outlook } from '../commands/deps.ts';
import type { Priority } from '../domain/transfer.ts';
import { countOpenTransfers } from '../projections/transfer-queries.ts';
import { PRIORITY_OFFSET_MS } from './jobs.ts';

/** A mover process that has not been seen for so long is not counted on. */
export const MOVERS_SEEN_WITHIN_S = 15;
const FIRST_GUESS_MS = 1_000;

/**
 * What lies before a transfer that is created now: the work that comes before it, spread over the movers,
 * from what transfers took lately. 0 milliseconds where a mover is free.
 */
export async function queueOutlook(sql: Sql, accountId: string, priority: Priority): Promise<Outlook> {
  const [openTransfers, rows] = await Promise.all([
    countOpenTransfers(sql, accountId),
    sql<{ ahead: bigint; slots: bigint | null; active: bigint | null; mean_ms: number | null }[]>`
      select (select count(*) from (
                select from work.transfer_jobs
                 where claim_id is null and due_at <= now() and rank <= now() + ${PRIORITY_OFFSET_MS[priority]} * interval '1 millisecond'
                 limit 100000) waiting) as ahead,
             sum(slots) as slots, sum(active) as active, avg(mean_duration_ms) as mean_ms
        from work.movers where seen_at > now() - ${MOVERS_SEEN_WITHIN_S} * interval '1 second'`,
  ]);
  const row = rows[0];
  const ahead = Number(row?.ahead ?? 0);
  const slots = Math.max(1, Number(row?.slots ?? 0));
  const free = Number(row?.slots ?? 0) - Number(row?.active ?? 0);
  if (ahead < free) return { openTransfers, startsInMs: 0 };
  const rounds = (ahead - Math.max(0, free) + 1) / slots;
  return { openTransfers, startsInMs: Math.round(rounds * (row?.mean_ms ?? FIRST_GUESS_MS)) };
}
