import type { Sql } from '../../adapters/postgres/connect.ts';
import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import { TRANSFER_STATUSES, type TransferStatus } from '../../domain/transfers/transfer.ts';
import { errorCodeOf, isRetried } from './columns.ts';
import type { TransferFilter } from './filter.ts';
import { hourly } from './hours.ts';

export interface TransferSummary {
  byStatus: Record<TransferStatus, number>;
  /** The most frequent first. */
  failures: { code: TransferErrorCode; transfers: number }[];
  /** How many of the failed ones were retried. */
  retried: number;
}

/**
 * Counts an account's transfers by status, from the hourly counts, the newest `failures` of its
 * failed ones by error code, and the failed ones that were retried. One snapshot.
 */
export async function summarizeTransfers(
  sql: Sql,
  accountId: string,
  filter: Pick<TransferFilter, 'from' | 'to'>,
  failures: number,
): Promise<TransferSummary> {
  const spans = hourly(filter);
  const starts = (exact: boolean) => spans.filter((s) => s.exact === exact).map((s) => s.from);
  const ends = (exact: boolean) => spans.filter((s) => s.exact === exact).map((s) => s.to);
  const { from = '-infinity', to = 'infinity' } = filter;
  const failed = sql`
    account_id = ${accountId} and status = 'failed'
    and created_at >= ${from}::text::timestamptz and created_at <= ${to}::text::timestamptz`;
  const rows = await sql<
    { kind: 'status' | 'code' | 'retried'; name: string; transfers: number }[]
  >`
    with counted as (
      select status, transfers from read.transfer_counts
        join unnest(${starts(false)}::text[]::timestamptz[], ${ends(false)}::text[]::timestamptz[])
          as s(starts, ends) on hour >= s.starts and hour < s.ends
       where account_id = ${accountId}
      union all
      select t.status, 1
        from unnest(${starts(true)}::text[]::timestamptz[], ${ends(true)}::text[]::timestamptz[])
          as s(starts, ends)
        join read.transfers t on t.account_id = ${accountId}
         and t.created_at >= s.starts and t.created_at < s.ends
    ),
    failed as (
      select state from read.transfers where ${failed}
       order by created_at desc limit ${failures}
    )
    select 'status' as kind, status as name, sum(transfers)::float8 as transfers
      from counted group by status
    union all
    select 'code', ${errorCodeOf(sql)}, count(*)::float8 from failed group by 2
    union all
    select 'retried', '', count(*)::float8 from read.transfers where ${failed} and ${isRetried(sql)}
    order by transfers desc, name`;
  const of = (kind: string) => rows.filter((row) => row.kind === kind);
  const counts = new Map(of('status').map(({ name, transfers }) => [name, transfers]));
  return {
    byStatus: Object.fromEntries(
      TRANSFER_STATUSES.map((status) => [status, counts.get(status) ?? 0]),
    ) as Record<TransferStatus, number>,
    failures: of('code').map(({ name, transfers }) => ({
      code: name as TransferErrorCode,
      transfers,
    })),
    retried: of('retried')[0]?.transfers ?? 0,
  };
}
