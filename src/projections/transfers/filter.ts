import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';
import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import type { SortOrder, Transfer, TransferStatus } from '../../domain/transfers/transfer.ts';
import { type Page, timesOf } from '../lists.ts';
import {
  batchOf,
  errorCodeOf,
  errorEndpointOf,
  hasBatch,
  hasFailed,
  isRetried,
  isRetry,
  retryOf,
} from './columns.ts';

export interface SortedPage extends Page {
  /** Newest first by default. */
  sort?: SortOrder | undefined;
}

export interface TransferPage {
  transfers: Transfer[];
  total: number;
  /** Only of a search. False if more than `total` may match. */
  totalIsExact?: boolean;
}

export interface TransferFilter {
  status?: TransferStatus | undefined;
  /** The error with which they have failed. */
  errorCode?: TransferErrorCode | undefined;
  /** The endpoint at which they have failed. */
  errorEndpointId?: string | undefined;
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
  /** Whether another transfer repeats them. */
  retried?: boolean | undefined;
  /** Words, all of which the transfer's search text has. */
  q?: string | undefined;
}

/** Returns true if a filter has other parts than these. */
export function asksMoreThan(filter: TransferFilter, ...parts: (keyof TransferFilter)[]): boolean {
  const asked = Object.keys(filter) as (keyof TransferFilter)[];
  return asked.some((part) => filter[part] !== undefined && !parts.includes(part));
}

/** The place of a transfer in every list, whatever its order. */
export interface ListPlace {
  created_at: string;
  transfer_id: string;
}

const NEWEST_FIRST: Record<SortOrder, boolean> = { '-created_at': true, created_at: false };

/** Returns the direction of an order. All orders are by the time of creation. */
export const isNewestFirst = (order: SortOrder): boolean => NEWEST_FIRST[order];

/** Returns the list for `order by`. */
export function inOrder(sql: Queryable, order: SortOrder) {
  return isNewestFirst(order)
    ? sql`created_at desc, transfer_id desc`
    : sql`created_at, transfer_id`;
}

/** Returns what holds for the rows after a place. */
export function isAfter(sql: Queryable, place: ListPlace | null, order: SortOrder) {
  if (place === null) return sql`true`;
  const { created_at, transfer_id } = place;
  const key = sql`(${created_at}::text::timestamptz, ${transfer_id}::text)`;
  return isNewestFirst(order)
    ? sql`(created_at, transfer_id) < ${key}`
    : sql`(created_at, transfer_id) > ${key}`;
}

/** Returns what holds for the rows of an account in `read.transfers` that pass all but `q`. */
export function passes(sql: Queryable, accountId: string, filter: TransferFilter) {
  return sql`
    account_id = ${accountId} ${statusMatches(sql, filter)} ${rowMatches(sql, filter)}
    ${timeMatches(sql, filter)}`;
}

/**
 * Returns nothing without a time: Postgres would compare each of millions of rows with infinity.
 */
function timeMatches(sql: Queryable, filter: TransferFilter) {
  const { from, beyond } = timesOf(filter);
  const notBefore =
    filter.from === undefined ? sql`` : sql`and created_at >= ${from}::text::timestamptz`;
  const notAfter =
    filter.to === undefined ? sql`` : sql`and created_at < ${beyond}::text::timestamptz`;
  return sql`${notBefore} ${notAfter}`;
}

export function statusMatches(sql: Queryable, { status }: TransferFilter) {
  return status === undefined ? sql`` : sql`and status = ${status}`;
}

/** Returns what a filter asks of a row besides account, status, time and `q`. */
export function rowMatches(
  sql: Queryable,
  { errorCode, errorEndpointId, destination, retryOf: repeated, retried, batchId }: TransferFilter,
) {
  const errorMatches =
    errorCode === undefined
      ? sql``
      : sql`and ${hasFailed(sql)} and ${errorCodeOf(sql)} = ${errorCode}`;
  const endpointMatches =
    errorEndpointId === undefined
      ? sql``
      : sql`and ${hasFailed(sql)} and ${errorEndpointOf(sql)} = ${errorEndpointId}`;
  const destinationMatches =
    destination === undefined ? sql`` : sql`and ${isBelow(sql, destination)}`;
  const retryMatches =
    repeated === undefined ? sql`` : sql`and ${isRetry(sql)} and ${retryOf(sql)} = ${repeated}`;
  const batchMatches =
    batchId === undefined ? sql`` : sql`and ${hasBatch(sql)} and ${batchOf(sql)} = ${batchId}`;
  const retriedMatches =
    retried === undefined ? sql`` : sql`and ${isRetried(sql)} = ${retried}::boolean`;
  return sql`
    ${errorMatches} ${endpointMatches} ${destinationMatches} ${retryMatches} ${batchMatches} ${retriedMatches}`;
}

/**
 * Returns what holds for the destinations that begin with a prefix. Both bounds are values, so any
 * plan can use the index, and no row is compared with the prefix again, as it is for `^@`.
 */
function isBelow(sql: Queryable, prefix: string) {
  const beyond = firstBeyond(prefix);
  return sql`destination >= ${prefix} ${beyond === null ? sql`` : sql`and destination < ${beyond}`}`;
}

/**
 * Returns what holds for the destinations before, and for those after, all that begin with a
 * prefix. One condition for each, because a scan of an index has one range.
 */
export function isOutside(sql: Queryable, prefix: string): [before: Fragment, after: Fragment] {
  const beyond = firstBeyond(prefix);
  return [
    sql`destination < ${prefix}`,
    beyond === null ? sql`false` : sql`destination >= ${beyond}`,
  ];
}

/**
 * Returns the first text, in the order of code points, that follows all texts with this prefix.
 * Null if there is none.
 */
function firstBeyond(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) as number);
  while (points.at(-1) === 0x10_ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return null;
  // No text has the code points between these two.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
