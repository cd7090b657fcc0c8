import type { Sql } from '../../adapters/postgres/connect.ts';
import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import { TRANSFER_STATUSES, type TransferStatus } from '../../domain/transfers/transfer.ts';
import { endpointOfError, isRetried } from './columns.ts';
import type { TransferFilter } from './filter.ts';
import { countedHours } from './hours.ts';

export type StatusCounts = Record<TransferStatus, number>;

export interface TransferSummary {
  byStatus: StatusCounts;
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
      ${countedHours(sql, accountId, filter)}
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
  return {
    byStatus: byStatus(of('status').map(({ name, transfers }) => [name, transfers])),
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

export interface HourOfTransfers {
  /** When it begins, ISO 8601. */
  at: string;
  byStatus: StatusCounts;
}

/**
 * Counts an account's transfers by the hour of their creation and by status: the newest `limit`
 * hours that have some, oldest first.
 */
export async function countTransfersByHour(
  sql: Sql,
  accountId: string,
  filter: Pick<TransferFilter, 'from' | 'to'>,
  limit: number,
): Promise<HourOfTransfers[]> {
  const rows = await sql<{ at: string; counts: [status: string, transfers: number][] }[]>`
    select hour as at, json_agg(json_build_array(status, transfers)) as counts
      from (select hour, status, sum(transfers)::float8 as transfers
              from (${countedHours(sql, accountId, filter)}) counted
             group by hour, status having sum(transfers) > 0) hours
     group by hour order by hour desc limit ${limit}`;
  return rows.map(({ at, counts }) => ({ at, byStatus: byStatus(counts) })).reverse();
}

function byStatus(counted: [status: string, transfers: number][]): StatusCounts {
  const counts = new Map(counted);
  return Object.fromEntries(
    TRANSFER_STATUSES.map((status) => [status, counts.get(status) ?? 0]),
  ) as StatusCounts;
}
