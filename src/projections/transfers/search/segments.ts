/*
 * The segments of an account (projection.ts) that a search reads, and which of their texts may have
 * its words.
 */
import type { Transaction } from '../../../adapters/postgres/connect.ts';
import { instantOf, timesOf } from '../../lists.ts';
import { isNewestFirst } from '../filter.ts';
import { type Search, type SegmentPart, wordsOf } from './conditions.ts';
import { inAll, listsOf } from './trigrams.ts';

/** A segment with more than twice this many candidates is read in parts of this many. */
const PART = 100;

/** Enough for a long word: one more list costs more than the texts that it excludes. */
const MAX_LISTS = 8;
/** Times that span all transfers. */
const EARLIEST = '0001-01-01T00:00:00.000Z';
const LATEST = '9999-12-31T23:59:59.999Z';

export interface Segment {
  segment: number;
  /** Times of its first and last transfer. */
  starts: string;
  ends: string;
  /** The number of texts in its index. Null without an index: in segment 0. */
  texts: number | null;
}

/** Texts of a segment, between two times. */
/** Returns the segments that may have matches, in the order of the search. */
export async function findSegments(tx: Transaction, search: Search): Promise<Segment[]> {
  const { accountId } = search;
  const segments = await tx<Segment[]>`
    -- tables of an older version lack some columns; they serve until their rebuild is done
    select segment, starts, ends, (to_jsonb(s) ->> 'texts')::integer as texts
      from read.transfer_search_segments s
     where account_id = ${accountId}
    union all
    select 0, coalesce((to_jsonb(a) ->> 'starts')::timestamptz, ${EARLIEST}::text::timestamptz),
           coalesce((to_jsonb(a) ->> 'ends')::timestamptz, ${LATEST}::text::timestamptz), null
      from read.transfer_search_accounts a
     where account_id = ${accountId} and recent > 0`;
  return inOrderOf(search, segments);
}

/**
 * Returns the lists of trigrams that each text with all words is in; none if an index cannot find
 * any word. Of a long word these are the shortest lists in the first segment, the last, and one
 * between them. Names have dates, so segments of one time show too little.
 */
export async function findLists(
  tx: Transaction,
  { filter }: Search,
  segments: Segment[],
): Promise<number[]> {
  const words = wordsOf(filter).map(listsOf);
  const long = words.filter((lists) => lists.length > MAX_LISTS).flat();
  const indexed = segments.filter(({ texts }) => texts !== null);
  if (long.length === 0 || indexed.length === 0) return [...new Set(words.flat())];
  const sampled = [indexed[0], indexed[indexed.length >> 1], indexed.at(-1)];
  const found = await tx<{ list: number; bytes: number }[]>`
    select list, max(octet_length(numbers)) as bytes from read.transfer_search_trigrams
     where segment = any(${sampled.map((one) => one?.segment ?? 0)}::integer[])
       and list = any(${long}::integer[])
     group by list`;
  const bytes = new Map(found.map((one) => [one.list, one.bytes]));
  const lengthOf = (list: number) => bytes.get(list) ?? 0;
  return [
    ...new Set(
      words.flatMap((lists) =>
        lists.toSorted((a, b) => lengthOf(a) - lengthOf(b)).slice(0, MAX_LISTS),
      ),
    ),
  ];
}

/**
 * Returns the parts of some segments that may have texts of all lists, in the order of the search.
 */
export async function findParts(
  tx: Transaction,
  search: Search,
  segments: Segment[],
  lists: number[],
): Promise<SegmentPart[]> {
  const indexed = lists.length === 0 ? [] : segments.filter(({ texts }) => texts !== null);
  const parts: SegmentPart[] = segments
    .filter((segment) => !indexed.includes(segment))
    .map(({ segment, starts, ends }) => ({ segment, starts, ends, numbers: null }));
  const rows =
    indexed.length === 0
      ? []
      : await tx<{ segment: number; numbers: Uint8Array }[]>`
          select segment, numbers from read.transfer_search_trigrams
           where segment = any(${indexed.map(({ segment }) => segment)}::integer[])
             and list = any(${lists}::integer[])`;
  const found = Map.groupBy(rows, ({ segment }) => segment);
  for (const { segment, starts, ends, texts } of indexed) {
    const all = found.get(segment) ?? [];
    if (all.length < lists.length) continue;
    const numbers = inAll(
      all.map((row) => row.numbers),
      texts ?? 0,
    );
    if (numbers.length > 0) parts.push({ segment, starts, ends, numbers });
  }
  return inOrderOf(search, await splitParts(tx, parts));
}

/**
 * Splits parts with many candidates by their times. So a search of a common word, or of some days,
 * reads few of them.
 */
async function splitParts(tx: Transaction, parts: SegmentPart[]): Promise<SegmentPart[]> {
  const bounds = parts.flatMap(({ segment, numbers }) =>
    numbers === null || numbers.length <= 2 * PART
      ? []
      : numbers.flatMap((number, place) =>
          place > 0 && place % PART === 0 ? { segment, number, place } : [],
        ),
  );
  if (bounds.length === 0) return parts;
  // Transfers that left the log are no bounds.
  const found = await tx<{ segment: number; place: number; created_at: string }[]>`
    select b.segment, place, created_at
      from unnest(${bounds.map(({ segment }) => segment)}::integer[],
                  ${bounds.map(({ number }) => number)}::integer[],
                  ${bounds.map(({ place }) => place)}::integer[]) as b(segment, number, place)
     cross join lateral (
       select created_at from read.transfer_search_full
        where segment = b.segment and number = b.number offset 0) t
     order by place`;
  const bySegment = Map.groupBy(found, ({ segment }) => segment);
  return parts.flatMap((part) => {
    const { segment, starts, ends, numbers } = part;
    const own = bySegment.get(segment) ?? [];
    return [{ place: 0, created_at: starts }, ...own].map(({ place, created_at }, i) => ({
      segment,
      starts: created_at,
      ends: own[i]?.created_at ?? ends,
      numbers: numbers?.slice(place, own[i]?.place) ?? null,
    }));
  });
}

/** Returns those whose times the search may show, in its order. */
function inOrderOf<Times extends Pick<SegmentPart, 'starts' | 'ends'>>(
  { filter, order, after }: Search,
  times: Times[],
): Times[] {
  const { beyond } = timesOf(filter);
  const from = filter.from === undefined ? '' : instantOf(Date.parse(filter.from));
  const newestFirst = isNewestFirst(order);
  const follows = ({ starts, ends }: Times) =>
    !after || (newestFirst ? starts <= after.created_at : ends >= after.created_at);
  return times
    .filter((one) => one.ends >= from && one.starts < beyond && follows(one))
    .sort((a, b) => (newestFirst ? compare(b.ends, a.ends) : compare(a.starts, b.starts)));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
