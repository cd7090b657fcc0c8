import type { Sql } from '../../adapters/postgres/connect.ts';
import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import { TRANSFER_STATUSES, type TransferStatus } from '../../domain/transfers/transfer.ts';
import { endpointOfError, isRetried } from './columns.ts';
import type { TransferFilter } from './filter.ts';
import { hourly } from './hours.ts';

export interface TransferSummary {
  byStatus: Record<TransferStatus, number>;
  /** The most frequent first. */
  failures: ({ code: TransferErrorCode } & Failures)[];
  /** Those that failed at an endpoint, the most frequent first. */
  byEndpoint: EndpointFailures[];
  /** How many of the failed ones were retried. */
  retried: number;
}

export interface Failures {
  transfers: number;
  firstFailedAt: string;
  lastFailedAt: string;
}

export interface EndpointFailures extends Failures {
  endpointId: string;
  /** Null if the endpoint was removed, or if the account may not use it any more. */
  name: string | null;
}

/**
 * Counts an account's transfers by status, from the hourly counts, the newest `failures` of its
 * failed ones by error code and by endpoint, and the failed ones that were retried. One snapshot.
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
  const endpointId = endpointOfError(sql, {
    code: sql`code`,
    phase: sql`phase`,
    expected_sha256: sql`expected_sha256`,
    source_endpoint_id: sql`source_endpoint_id`,
    destination_endpoint_id: sql`destination_endpoint_id`,
  });
  const rows = await sql<
    {
      kind: 'status' | 'code' | 'endpoint' | 'retried';
      name: string;
      transfers: number;
      /** Times of failures, of `code` and `endpoint` only. */
      first: string;
      last: string;
      endpoint: string | null;
    }[]
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
      -- parses each state once
      select code, ${endpointId} as endpoint_id, occurred_at as failed_at
        from (
          select state from read.transfers where ${failed}
           order by created_at desc limit ${failures}) newest,
        json_to_record(state -> 'facts') as facts
          (error json, expected_sha256 text, source_endpoint_id text, destination_endpoint_id text),
        json_to_record(error) as e (code text, phase text, occurred_at text)
    ),
    at_endpoints as (
      select endpoint_id, count(*)::float8 as transfers,
             min(failed_at) as first, max(failed_at) as last
        from failed where endpoint_id is not null group by endpoint_id
    )
    select 'status' as kind, status as name, sum(transfers)::float8 as transfers,
           null as first, null as last, null as endpoint
      from counted group by status
    union all
    select 'code', code, count(*)::float8, min(failed_at), max(failed_at), null
      from failed group by code
    union all
    select 'endpoint', f.endpoint_id, f.transfers, f.first, f.last, e.name
      from at_endpoints f
      left join read.endpoints e
        on e.endpoint_id = f.endpoint_id and not e.removed
       and (e.state ->> 'accounts' is null or e.state::jsonb -> 'accounts' ? ${accountId})
    union all
    select 'retried', '', count(*)::float8, null, null, null
      from read.transfers where ${failed} and ${isRetried(sql)}
    order by transfers desc, name`;
  const of = (kind: string) => rows.filter((row) => row.kind === kind);
  const counts = new Map(of('status').map(({ name, transfers }) => [name, transfers]));
  return {
    byStatus: Object.fromEntries(
      TRANSFER_STATUSES.map((status) => [status, counts.get(status) ?? 0]),
    ) as Record<TransferStatus, number>,
    failures: of('code').map(({ name, transfers, first, last }) => ({
      code: name as TransferErrorCode,
      transfers,
      firstFailedAt: first,
      lastFailedAt: last,
    })),
    byEndpoint: of('endpoint').map(({ name: endpointId, transfers, first, last, endpoint }) => ({
      endpointId,
      name: endpoint,
      transfers,
      firstFailedAt: first,
      lastFailedAt: last,
    })),
    retried: of('retried')[0]?.transfers ?? 0,
  };
}
