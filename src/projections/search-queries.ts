/*
 * Searches of transfers: the newest, or oldest, whose texts have all words.
 *
 * A search reads the segments of an account (transfer-search.ts) in the order of the page, and
 * stops when no later segment can have a transfer that belongs on it. Then it goes on to count.
 */
import type { Fragment, Sql, Transaction } from '../adapters/postgres/connect.ts';
import { createSemaphore } from '../concurrency/semaphore.ts';
import type { SortOrder, Transfer } from '../domain/transfer.ts';
import { tookTooLong, withCustomPlans } from './custom-plan.ts';
import { FEW, hasAllWords, passesOthers, sampleTexts } from './search-conditions.ts';
import { hasTrigram, hasWords, searchText, searchWords } from './search-text.ts';
import {
  inOrder,
  isAfter,
  type Place,
  passes,
  type TransferFilter,
  timesOf,
} from './transfer-filter.ts';

/** A search counts no further. */
export const MOST_COUNTED = 10_000;
/** It also stops to count after this long, in milliseconds. */
const COUNTING_MS = 50;
/** How many segments one statement reads at most, so that it ends in time. */
const READ_AT_ONCE = 64;
/** Without a trigram, a search reads this many segments, each without an index. */
const READ_WITHOUT_INDEX = 3;
/** A caller waits this long for a page, in milliseconds. */
const PAGE_WITHIN_MS = 10_000;
/** Less than the minute after which a connection without an answer counts as lost. */
const THOROUGH_STATEMENT_MS = 30_000;
/**
 * Searches of one process at a time. Each can keep a core of Postgres busy, and locks a table for
 * each segment.
 */
const searches = createSemaphore(4);

export interface Search {
  accountId: string;
  filter: TransferFilter & { q: string };
  order: SortOrder;
  /** Finds only what follows this place. */
  after?: Place | null;
  /** How many places to return. */
  rows: number;
  /** How far to count; at least `rows`. */
  count: number;
  /** Reads all segments also for words that no index knows, however long it takes. */
  thorough?: boolean;
  /** How long it may take if it is not thorough, in milliseconds. */
  withinMs?: number;
}

export interface SearchResult {
  /** The first matches in the order of the search. */
  places: Place[];
  total: number;
  /** False if more than `total` may match. */
  totalIsExact: boolean;
}

/**
 * Returns the first matches of a search, and their total. Without a word that has three letters or
 * digits in a row it looks into the first segments only. Throws `tookTooLong`.
 */
export async function searchTransfers(sql: Sql, search: Search): Promise<SearchResult> {
  const { thorough = false, withinMs = PAGE_WITHIN_MS } = search;
  const within = thorough ? undefined : AbortSignal.timeout(withinMs);
  try {
    const release = await searches.acquire(within);
    // One snapshot: rows move between segments. The lock that the first statement takes keeps a
    // rebuild from replacing the tables before the last one.
    return await withCustomPlans(
      sql,
      async (tx) => (await searchFew(tx, search)) ?? searchSegments(tx, search, within),
      thorough ? THOROUGH_STATEMENT_MS : withinMs,
    ).finally(release);
  } catch (error) {
    throw within?.aborted && error === within.reason ? tookTooLong(withinMs, error) : error;
  }
}

/**
 * Searches the states of what passes the other filters. Returns null if there is no other filter,
 * or too much passes.
 */
async function searchFew(tx: Transaction, search: Search): Promise<SearchResult | null> {
  const { accountId, filter, order, after = null, rows } = search;
  const { q, ...others } = filter;
  if (Object.values(others).every((value) => value === undefined)) return null;
  const passing = tx`
    from read.transfers
   where ${passes(tx, accountId, filter)} and ${isAfter(tx, after, order)}`;
  const [few] = await tx<{ passing: number }[]>`
    select count(*)::integer as passing from (select ${passing} limit ${FEW + 1}) p`;
  if (few === undefined || few.passing > FEW) return null;
  const found = await tx<(Place & { state: Transfer })[]>`
    select transfer_id, created_at, state ${passing} order by ${inOrder(tx, order)}`;
  const words = searchWords(q);
  const places = found
    .filter(({ state }) => hasWords(searchText(state.facts), words))
    .map(({ transfer_id, created_at }) => ({ transfer_id, created_at }));
  return { places: places.slice(0, rows), total: places.length, totalIsExact: true };
}

export interface Segment {
  segment: number;
  /** Times of its first and last transfer. */
  starts: string;
  ends: string;
}

async function searchSegments(
  tx: Transaction,
  search: Search,
  within?: AbortSignal,
): Promise<SearchResult> {
  const { filter, order, rows, count } = search;
  const started = performance.now();
  const segments = await findSegments(tx, search);
  const indexed = searchWords(filter.q).some(hasTrigram);
  const words = hasAllWords(tx, filter, await sampleTexts(tx, search, segments));
  const readable = indexed || search.thorough ? segments.length : READ_WITHOUT_INDEX;
  let places: Place[] = [];
  let total = 0;
  let next = 0;
  let segmentMs = 0;
  // How many segments a statement asks: twice as many each time, up to a limit.
  for (let asked = 1; next < Math.min(readable, segments.length); asked = next) {
    const complete = places.length >= rows && isBefore(places[rows - 1], segments[next], order);
    const from = performance.now();
    const inTime = complete ? (started + COUNTING_MS - from) / segmentMs : READ_AT_ONCE;
    if (complete && (total >= count || inTime < 1)) break;
    within?.throwIfAborted();
    const most = Math.min(asked, Math.floor(inTime), READ_AT_ONCE);
    const batch = segments.slice(next, Math.min(next + most, readable));
    const found = await searchBatch(
      tx,
      search,
      batch,
      words,
      complete ? 0 : rows,
      Math.max(0, count - total),
    );
    segmentMs = (performance.now() - from) / batch.length;
    next += batch.length;
    total += found.total;
    places = merge(places, found.places, order).slice(0, rows);
  }
  return {
    places,
    total: Math.min(total, count),
    totalIsExact: next >= segments.length && total <= count,
  };
}

/** Returns the segments that may have matches, in the order of the search. */
async function findSegments(
  tx: Transaction,
  { accountId, filter, order, after }: Search,
): Promise<Segment[]> {
  const { from, beyond } = timesOf(filter);
  const afterwards = !after
    ? tx`true`
    : order === '-created_at'
      ? tx`starts <= ${after.created_at}`
      : tx`ends >= ${after.created_at}`;
  const own = tx`from read.transfer_search where segment = 0 and account_id = ${accountId}`;
  return tx<Segment[]>`
    select * from (
      select segment, starts, ends from read.transfer_search_segments
       where account_id = ${accountId}
      union all
      select 0, (select min(created_at) ${own}), (select max(created_at) ${own})
    ) s
     where ends >= ${from}::text::timestamptz and starts < ${beyond}::text::timestamptz
       and ${afterwards}
     order by ${order === '-created_at' ? tx`ends desc` : tx`starts`}`;
}

/** Returns the first matches in some segments, and counts them. */
async function searchBatch(
  tx: Transaction,
  search: Search,
  segments: Segment[],
  words: Fragment,
  rows: number,
  count: number,
): Promise<{ places: Place[]; total: number }> {
  const { accountId, filter, order, after = null } = search;
  const { from, beyond } = timesOf(filter);
  const others = await passesOthers(tx, search, segments);
  const matches = tx`
    select transfer_id, created_at from read.transfer_search m
     where segment = any(${segments.map(({ segment }) => segment)}::integer[])
       and account_id = ${accountId}
       and created_at >= ${from}::text::timestamptz and created_at < ${beyond}::text::timestamptz
       and ${isAfter(tx, after, order)} and ${words}`;
  // In order first: so only the matches of the page are looked up among the transfers.
  const found = await tx<(Place & { total: number | null })[]>`
    with passing as materialized (${others.few}),
    matches as materialized (${matches} ${others.ofFew})
    select transfer_id, created_at, null::integer as total from (
      select * from (select * from matches order by ${inOrder(tx, order)} offset 0) m
       where ${others.ofMany} order by ${inOrder(tx, order)} limit ${rows}
    ) page
    union all
    select null, null, count(*)::integer
      from (select from matches m where ${others.ofMany} limit ${count + 1}) counted
     order by total nulls first`;
  const total = found.at(-1)?.total ?? 0;
  const places = found
    .slice(0, -1)
    .map(({ transfer_id, created_at }) => ({ transfer_id, created_at }));
  return { places, total };
}

/** Returns true if a place comes before all of a segment. */
function isBefore(place: Place | undefined, segment: Segment | undefined, order: SortOrder) {
  if (place === undefined || segment === undefined) return false;
  return order === '-created_at'
    ? place.created_at > segment.ends
    : place.created_at < segment.starts;
}

function merge(a: Place[], b: Place[], order: SortOrder): Place[] {
  const sign = order === '-created_at' ? -1 : 1;
  const key = ({ created_at, transfer_id }: Place) => `${created_at} ${transfer_id}`;
  return [...a, ...b].sort((one, other) => (key(one) < key(other) ? -sign : sign));
}
