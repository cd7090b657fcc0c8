import type {
  LiveTransfer,
  Operations,
  TransferErrorCode,
  TransferFilters,
} from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { STATUSES } from './states.tsx';

export const ADDRESS = '/console/transfers';
type AnyQuery = Record<string, string | number | boolean | undefined>;
const DAY_MS = 86_400_000;

/** The filters of `GET /v1/transfers`. */
export type Filter = TransferFilters;
export type Order = NonNullable<NonNullable<Operations['GET /v1/transfers']['query']>['sort']>;

/** What the address says of the list. */
export interface View {
  filter: Filter;
  order: Order;
  offset: number;
  /** Rows of a page, if the address has them. */
  limit: number | undefined;
}

export const PAGE_SIZES = [25, 50, 100];

export function readView(query: Record<string, string>): View {
  const {
    q,
    error_code,
    error_endpoint_id,
    retried,
    destination,
    retry_of,
    batch_id,
    from_date,
    to_date,
  } = query;
  const status = STATUSES.find((known) => known === query.status);
  return {
    filter: {
      ...(q && { q }),
      ...(status && { status }),
      // Also one that this console does not know: the service may, or reports it.
      ...(error_code && { error_code: error_code as TransferErrorCode }),
      ...(error_endpoint_id && { error_endpoint_id }),
      ...((retried === 'true' || retried === 'false') && { retried: retried === 'true' }),
      ...(destination && { destination }),
      ...(retry_of && { retry_of }),
      ...(batch_id && { batch_id }),
      ...(from_date && { from_date }),
      ...(to_date && { to_date }),
    },
    order: query.sort === 'created_at' ? 'created_at' : '-created_at',
    offset: Math.max(0, Math.trunc(Number(query.offset) || 0)),
    limit: PAGE_SIZES.find((size) => String(size) === query.limit),
  };
}

/** Returns the address of the first page with these changes. An empty value removes a filter. */
export function addressOf(
  { filter, order, limit }: Omit<View, 'offset'>,
  changes: Record<string, string | number> = {},
): string {
  const sort = order === '-created_at' ? undefined : order;
  const query: AnyQuery = { ...filter, sort, limit, ...changes };
  if (query.sort === '-created_at') delete query.sort;
  return urlOf(ADDRESS, { query });
}

/** Returns true if a list with this filter would show the transfer. */
export function matches(transfer: LiveTransfer, filter: Filter): boolean {
  const {
    q = '',
    status,
    error_code,
    error_endpoint_id,
    retried,
    destination = '',
    retry_of,
    batch_id,
    from_date = '',
    to_date = '',
  } = filter;
  const created = Date.parse(transfer.created_at);
  // A date is a whole day in UTC. An invalid time filters nothing here; the service reports it.
  const end = Date.parse(to_date) + (to_date.includes(':') ? 0 : DAY_MS - 1);
  const text = [
    transfer.id,
    transfer.file_name,
    transfer.source,
    transfer.destination,
    ...Object.entries(transfer.metadata).flat(),
  ]
    .join('\n')
    .toLowerCase();
  return (
    q
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.includes(word)) &&
    (status === undefined || transfer.status === status) &&
    (error_code === undefined ||
      (transfer.status === 'failed' && transfer.error?.code === error_code)) &&
    // Only the list knows at which endpoint.
    (error_endpoint_id === undefined || transfer.status === 'failed') &&
    // Only the list knows what was retried: a new transfer was not.
    retried !== true &&
    transfer.destination.startsWith(destination) &&
    (retry_of === undefined || transfer.retry_of === retry_of) &&
    (batch_id === undefined || transfer.batch_id === batch_id) &&
    !(created < Date.parse(from_date) || created > end)
  );
}
