import type { Queryable } from '../adapters/postgres/connect.ts';
import type { SortOrder, TransferStatus } from '../domain/transfer.ts';
import { batchOf, hasBatch, isRetry, retryOf } from './transfer-columns.ts';

export interface TransferFilter {
  status?: TransferStatus | undefined;
  /** Created at or after this instant, ISO 8601. */
  from?: string | undefined;
  /** Created at or before this instant, ISO 8601. */
  to?: string | undefined;
  /** Literal prefix of the destination. */
  destination?: string | undefined;
  /** The batch that they belong to. */
  batchId?: string | undefined;
  /** The transfer that they repeat. */
  retryOf?: string | undefined;
  /** Words, all of which the transfer's search text has. */
  q?: string | undefined;
}

/** The place of a transfer in every order. */
export interface Place {
  created_at: string;
  transfer_id: string;
}

/** Returns the list for `order by`. */
export function inOrder(sql: Queryable, order: SortOrder) {
  return order === '-created_at'
    ? sql`created_at desc, transfer_id desc`
    : sql`created_at, transfer_id`;
}

/** Returns what holds for the rows after a place. */
export function isAfter(sql: Queryable, place: Place | null, order: SortOrder) {
  if (place === null) return sql`true`;
  const { created_at, transfer_id } = place;
  const key = sql`(${created_at}::text::timestamptz, ${transfer_id}::text)`;
  return order === '-created_at'
    ? sql`(created_at, transfer_id) < ${key}`
    : sql`(created_at, transfer_id) > ${key}`;
}

/** Returns what holds for the rows of an account in `read.transfers` that pass all but `q`. */
export function passes(sql: Queryable, accountId: string, filter: TransferFilter) {
  const { from, beyond } = timesOf(filter);
  return sql`
    account_id = ${accountId} ${statusMatches(sql, filter)} ${rowMatches(sql, filter)}
    and created_at >= ${from}::text::timestamptz and created_at < ${beyond}::text::timestamptz`;
}

export function statusMatches(sql: Queryable, { status }: TransferFilter) {
  return status === undefined ? sql`` : sql`and status = ${status}`;
}

/** Returns what a filter asks of a row besides account, status, time and `q`. */
export function rowMatches(
  sql: Queryable,
  { destination, retryOf: repeated, batchId }: TransferFilter,
) {
  const destinationMatches =
    destination === undefined ? sql`` : sql`and destination ^@ ${destination}`;
  const retryMatches =
    repeated === undefined ? sql`` : sql`and ${isRetry(sql)} and ${retryOf(sql)} = ${repeated}`;
  const batchMatches =
    batchId === undefined ? sql`` : sql`and ${hasBatch(sql)} and ${batchOf(sql)} = ${batchId}`;
  return sql`${destinationMatches} ${retryMatches} ${batchMatches}`;
}

/** Returns the times of a filter: from `from`, inclusive, to `beyond`, exclusive. */
export function timesOf({ from, to }: TransferFilter): { from: string; beyond: string } {
  return {
    from: from ?? '-infinity',
    beyond: to === undefined ? 'infinity' : instantOf(Date.parse(to) + 1),
  };
}

/**
 * Formats an instant for Postgres, which misreads years of five digits (they start with a plus).
 */
export function instantOf(ms: number): string {
  const instant = new Date(ms).toISOString();
  return instant.startsWith('+') ? 'infinity' : instant;
}
