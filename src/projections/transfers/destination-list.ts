import type { Fragment, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { withCustomPlans } from '../custom-plan.ts';
import type { SortedPage, TransferPage } from './filter.ts';
import { inOrder, isNewestFirst, isOutside, passes, type TransferFilter } from './filter.ts';
import { areCountedByHour, countedSpans } from './hours.ts';

/** More would take too long if neither few match nor all but few: then all matches are read. */
const FEW = 50_000;

type DestinationFilter = Omit<TransferFilter, 'q'> & { destination: string };

/**
 * Returns a page and the total of the transfers below a destination, from one snapshot. Matches may
 * be many or few, all old or all new. So it counts them by hour in the index of destinations, which
 * has the times, and then reads the rows of the hours that the page is in.
 *
 * If more than `few` match, but at most `few` of the account do not, it reads the latter and
 * subtracts them from the hourly counts.
 */
export function listByDestination(
  sql: Sql,
  accountId: string,
  filter: DestinationFilter,
  page: Required<SortedPage>,
  few = FEW,
): Promise<TransferPage> {
  return withCustomPlans(sql, async (tx) => {
    const { total, before, from, to } = await hoursOfPage(tx, accountId, filter, page, few);
    if (from === null || to === null) return { transfers: [], total };
    // The sum keeps Postgres from a walk through the index of times until the page is full: few
    // transfers of these hours may match, if they are years apart.
    const time = tx`created_at + interval '0'`;
    const newestFirst = isNewestFirst(page.sort);
    const rows = await tx<{ state: Transfer }[]>`
      with page as (
        select transfer_id from read.transfers
         where ${passes(tx, accountId, filter)}
           and created_at >= ${from}::text::timestamptz and created_at < ${to}::text::timestamptz
         order by ${newestFirst ? tx`${time} desc, transfer_id desc` : tx`${time}, transfer_id`}
         limit ${page.limit} offset ${page.offset - before}
      )
      select state from page join read.transfers using (transfer_id)
       order by ${inOrder(tx, page.sort)}`;
    return { transfers: rows.map(({ state }) => state), total };
  });
}

/** The hours that a page is in. */
interface HoursOfPage {
  total: number;
  /** How many matches precede the first match of these hours, in the order of the page. */
  before: number;
  /** Start of the earliest hour; null if the page is empty. */
  from: string | null;
  /** End of the latest hour. */
  to: string | null;
}

async function hoursOfPage(
  tx: Transaction,
  accountId: string,
  filter: DestinationFilter,
  page: Required<SortedPage>,
  few: number,
): Promise<HoursOfPage> {
  const matching = tx`select created_at from read.transfers where ${passes(tx, accountId, filter)}`;
  if (!areCountedByHour(filter)) return readHours(tx, page, { rows: matching });
  const atMost = tx`limit ${few + 1}`;
  const first = await readHours(tx, page, { rows: tx`${matching} ${atMost}` });
  if (first.read <= few) return first;
  const { destination, status, ...times } = filter;
  const [below, above] = isOutside(tx, destination).map(
    (isThere) => tx`
      select created_at ${status === undefined ? tx`` : tx`, status`} from read.transfers
       where ${passes(tx, accountId, times)} and ${isThere}`,
  ) as [Fragment, Fragment];
  const counted = await readHours(tx, page, {
    rows: tx`${below} union all ${above} ${atMost}`,
    status,
    subtractFrom: countedSpans(tx, accountId, { ...times, status }),
    few,
  });
  return counted.read <= few ? counted : readHours(tx, page, { rows: matching });
}

interface HoursToRead {
  /** A query of `created_at`, and of `status` if that is given. */
  rows: Fragment;
  /** Counts only the rows of this status. */
  status?: TransferFilter['status'];
  /**
   * A query of spans, none longer than an hour, whose transfers match unless they are in `rows`.
   */
  subtractFrom?: Fragment;
  /** The spans are not read if there are more rows. */
  few?: number;
}

/** Also returns the number of rows that it has read. */
async function readHours(
  tx: Transaction,
  { limit, offset, sort }: Required<SortedPage>,
  { rows, status, subtractFrom, few = 0 }: HoursToRead,
): Promise<HoursOfPage & { read: number }> {
  const matches = status === undefined ? tx`` : tx`filter (where status = ${status})`;
  const hours = subtractFrom
    ? tx`
      select hour, sum(transfers)::bigint as transfers from (
        select date_bin('1 hour', starts, 'epoch') as hour, transfers from (${subtractFrom}) s
         where (select coalesce(sum(rows), 0) from read) <= ${few}
        union all
        select hour, -transfers from read) h
       group by hour having sum(transfers) > 0`
    : tx`select hour, transfers from read`;
  const [found] = await tx<[Record<'read' | 'total' | 'before', bigint> & HoursOfPage]>`
    with read as (
      select date_bin('1 hour', created_at, 'epoch') as hour, count(*) as rows,
             count(*) ${matches} as transfers
        from (${rows}) r group by 1
    ),
    hours as (${hours}),
    running as (
      select hour, transfers,
             sum(transfers) over (order by hour ${isNewestFirst(sort) ? tx`desc` : tx``})
               - transfers as before
        from hours
    )
    select (select coalesce(sum(rows), 0) from read)::bigint as read,
           (select coalesce(sum(transfers), 0) from hours)::bigint as total,
           coalesce(min(before), 0)::bigint as before,
           min(hour) as "from", max(hour) + interval '1 hour' as "to"
      from running
     where before < ${offset + limit}::bigint and before + transfers > ${offset}::bigint`;
  const { read, total, before, from, to } = found;
  return { read: Number(read), total: Number(total), before: Number(before), from, to };
}
