/*
 * Searches of transfers: the newest, or oldest, whose texts have all words.
 *
 * A search asks the indexes of the segments of an account, in the order of the page, which texts
 * may have the words (segments.ts). It reads those texts, and stops when no later one can belong on
 * the page. Then it counts.
 */
import type { Fragment, Sql, Transaction } from '../../../adapters/postgres/connect.ts';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import type { SortOrder, Transfer } from '../../../domain/transfers/transfer.ts';
import { tookTooLong, withCustomPlans } from '../../custom-plan.ts';
import { hasWords, searchWords, timesOf } from '../../lists.ts';
import {
  asksMoreThan,
  inOrder,
  isAfter,
  isNewestFirst,
  type ListPlace,
  passes,
} from '../filter.ts';
import { FEW, hasAllWords, passesOthers, type Search, type SegmentPart } from './conditions.ts';
import { findLists, findParts, findSegments } from './segments.ts';
import { searchText } from './text.ts';

/** A search counts no further. */
export const SEARCH_COUNTED_TO = 10_000;
/** It also stops counting after this many milliseconds. */
const COUNTING_MS = 50;
/** How many segments, and how many texts, one statement reads at most, so that it ends in time. */
const SEGMENTS_AT_ONCE = 64;
const TEXTS_AT_ONCE = 2_048;
/** A statement that reads this many texts takes about as long as one that reads a single text. */
const FIRST_TEXTS = 200;
/**
 * A count reads no more at once. Texts on disk take ten times as long as texts in memory, so the
 * pace of the last step does not tell how long the next one takes.
 */
const COUNTED_AT_ONCE = { segments: 4, texts: FIRST_TEXTS };
/** Postgres reads this many texts in a row as quickly as it finds one of them. */
const NEAR = 4;
/** Without a trigram, a search reads this many segments, each without an index. */
const READ_WITHOUT_INDEX = 3;
/** A caller waits this long for a page, in milliseconds. */
const PAGE_WITHIN_MS = 10_000;
/** Less than the minute after which a connection without an answer counts as lost. */
const THOROUGH_STATEMENT_MS = 30_000;
/** Searches of one process at a time. Each can keep a core of Postgres busy. */
const searches = createSemaphore(4);
/** Thorough ones among them. They may take minutes, and a page waits no longer than `withinMs`. */
const thoroughSearches = createSemaphore(2);

export interface SearchResult {
  /** The first matches in the order of the search. */
  places: ListPlace[];
  total: number;
  /** False if more than `total` may match. */
  totalIsExact: boolean;
}

/**
 * Returns the first matches of a search, and their total. Without a word of three characters it
 * looks into the first segments only. Throws `tookTooLong`.
 */
export async function searchTransfers(sql: Sql, search: Search): Promise<SearchResult> {
  const { thorough = false, withinMs = PAGE_WITHIN_MS } = search;
  const tables = hasOthers(search)
    ? ['transfer_search_accounts', 'transfers']
    : ['transfer_search_accounts'];
  const within = thorough ? undefined : AbortSignal.timeout(withinMs);
  // One snapshot: rows move between segments.
  const read = () =>
    withCustomPlans(
      sql,
      async (tx) => (await searchFew(tx, search)) ?? searchSegments(tx, search, within),
      { statementMs: thorough ? THOROUGH_STATEMENT_MS : withinMs, tables },
    );
  try {
    if (thorough) return await thoroughSearches.run(() => searches.run(read));
    const release = await searches.acquire(within);
    return await read().finally(release);
  } catch (error) {
    throw within?.aborted && error === within.reason ? tookTooLong(withinMs, error) : error;
  }
}

/** Returns true if a search has other filters than its words. They ask the states of transfers. */
const hasOthers = ({ filter }: Search): boolean => asksMoreThan(filter, 'q');

/**
 * Searches the states of what passes the other filters. Returns null if there is no other filter,
 * or too much passes.
 */
async function searchFew(tx: Transaction, search: Search): Promise<SearchResult | null> {
  const { accountId, filter, order, after = null, rows } = search;
  const { q } = filter;
  if (!hasOthers(search)) return null;
  const passing = tx`
    from read.transfers
   where ${passes(tx, accountId, filter)} and ${isAfter(tx, after, order)}`;
  const [few] = await tx<{ passing: number }[]>`
    select count(*)::integer as passing from (select ${passing} limit ${FEW + 1}) p`;
  if (few === undefined || few.passing > FEW) return null;
  const found = await tx<(ListPlace & { state: Transfer })[]>`
    select transfer_id, created_at, state ${passing} order by ${inOrder(tx, order)}`;
  const words = searchWords(q);
  const places = found
    .filter(({ state }) => hasWords(searchText(state.facts), words))
    .map(({ transfer_id, created_at }) => ({ transfer_id, created_at }));
  return { places: places.slice(0, rows), total: places.length, totalIsExact: true };
}

async function searchSegments(
  tx: Transaction,
  search: Search,
  within?: AbortSignal,
): Promise<SearchResult> {
  const { order, rows, count } = search;
  const started = performance.now();
  const found = await findSegments(tx, search);
  const lists = await findLists(tx, search, found);
  const readable = lists.length > 0 || search.thorough ? found.length : READ_WITHOUT_INDEX;
  const segments = found.slice(0, readable);
  let parts: SegmentPart[] = [];
  let places: ListPlace[] = [];
  let total = 0;
  const segmentsAtOnce = createPace(1, SEGMENTS_AT_ONCE, COUNTED_AT_ONCE.segments);
  const textsAtOnce = createPace(Math.max(rows, FIRST_TEXTS), TEXTS_AT_ONCE, COUNTED_AT_ONCE.texts);
  while (parts.length > 0 || segments.length > 0) {
    within?.throwIfAborted();
    const last = places[rows - 1];
    const complete = isBefore(last, parts[0], order) && isBefore(last, segments[0], order);
    const left = complete ? started + COUNTING_MS - performance.now() : Number.POSITIVE_INFINITY;
    if (complete && (total >= count || left <= 0)) break;
    if (parts.length === 0) {
      const asked = segments.splice(0, segmentsAtOnce.next(left));
      parts = await segmentsAtOnce.measure(asked.length, findParts(tx, search, asked, lists));
      continue;
    }
    const read = take(parts, textsAtOnce.next(left));
    const most = { rows: complete ? 0 : rows, count: Math.max(0, count - total) };
    const texts = read.reduce((sum, { numbers }) => sum + (numbers?.length ?? 0), 0);
    const matches = await textsAtOnce.measure(texts, searchParts(tx, search, read, most));
    total += matches.total;
    places = merge(places, matches.places, order).slice(0, rows);
  }
  const readAll = parts.length === 0 && segments.length === 0 && readable >= found.length;
  return { places, total: Math.min(total, count), totalIsExact: readAll && total <= count };
}

/**
 * Says how much to read at once: twice as much each time. With a time limit, no more than fits into
 * it, and no more than `mostInTime`.
 */
function createPace(first: number, most: number, mostInTime: number) {
  let atOnce = first;
  let msEach = 0;
  return {
    /** Returns how much fits into `ms` milliseconds, at the pace of the last step. */
    next(ms: number): number {
      if (ms === Number.POSITIVE_INFINITY) return atOnce;
      return Math.max(1, Math.floor(Math.min(atOnce, mostInTime, ms / msEach)));
    },
    async measure<Found>(read: number, found: Promise<Found>): Promise<Found> {
      const started = performance.now();
      await found;
      if (read > 0) msEach = (performance.now() - started) / read;
      atOnce = Math.min(2 * atOnce, most);
      return found;
    },
  };
}

/**
 * Removes and returns the first parts, up to the one that completes `texts` texts. A part without
 * an index is alone.
 */
function take(parts: SegmentPart[], texts: number): SegmentPart[] {
  let taken = 0;
  let read = 0;
  while (taken < parts.length && read < texts) {
    const numbers = parts[taken]?.numbers ?? null;
    if (numbers === null && taken > 0) break;
    read += numbers?.length ?? Number.POSITIVE_INFINITY;
    taken++;
  }
  return parts.splice(0, taken);
}

/** Returns the first matches in some parts, and counts them. */
async function searchParts(
  tx: Transaction,
  search: Search,
  parts: SegmentPart[],
  { rows, count }: { rows: number; count: number },
): Promise<{ places: ListPlace[]; total: number }> {
  const { accountId, filter, order, after = null } = search;
  const { from, beyond } = timesOf(filter);
  const others = await passesOthers(tx, search, parts);
  const matches = tx`
    select transfer_id, created_at from ${textsOf(tx, parts)} m
     where account_id = ${accountId}
       and created_at >= ${from}::text::timestamptz and created_at < ${beyond}::text::timestamptz
       and ${isAfter(tx, after, order)} and ${hasAllWords(tx, filter)}`;
  // In order first: so only the matches of the page are looked up among the transfers.
  const found = await tx<(ListPlace & { total: number | null })[]>`
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

/** Returns the rows of some parts: one part without an index, or parts with numbers. */
function textsOf(tx: Transaction, parts: SegmentPart[]): Fragment {
  const ranges = parts.flatMap(({ segment, numbers }) => rangesOf(segment, numbers ?? []));
  if (ranges.length === 0)
    return tx`(select * from read.transfer_search where segment = ${parts[0]?.segment ?? 0})`;
  // `offset 0` keeps the planner from another order of joins: it knows nothing of these rows.
  return tx`
    (select t.*
       from unnest(${ranges.map(({ segment }) => segment)}::integer[],
                   ${ranges.map(({ first }) => first)}::integer[],
                   ${ranges.map(({ last }) => last)}::integer[]) as r(segment, first, last)
      cross join lateral (
        select * from read.transfer_search_full
         where segment = r.segment and number between r.first and r.last offset 0) t)`;
}

/** Returns the ranges of some numbers, with those between them if they are few. */
function rangesOf(segment: number, numbers: number[]) {
  const ranges: { segment: number; first: number; last: number }[] = [];
  for (const number of numbers) {
    const range = ranges.at(-1);
    if (range && number - range.last <= NEAR) range.last = number;
    else ranges.push({ segment, first: number, last: number });
  }
  return ranges;
}

/** Returns true if there is a place, and it comes before everything of the next part, if any. */
function isBefore(
  place: ListPlace | undefined,
  next: Pick<SegmentPart, 'starts' | 'ends'> | undefined,
  order: SortOrder,
): boolean {
  if (place === undefined || next === undefined) return place !== undefined;
  return isNewestFirst(order) ? place.created_at > next.ends : place.created_at < next.starts;
}

function merge(a: ListPlace[], b: ListPlace[], order: SortOrder): ListPlace[] {
  const sign = isNewestFirst(order) ? -1 : 1;
  const key = ({ created_at, transfer_id }: ListPlace) => `${created_at} ${transfer_id}`;
  return [...a, ...b].sort((one, other) => (key(one) < key(other) ? -sign : sign));
}
