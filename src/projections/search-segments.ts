/*
 * The segments of an account (transfer-search.ts) that a search reads, and which of their texts may
 * have its words.
 */
import type { Transaction } from '../adapters/postgres/connect.ts';
import type { Search } from './search-queries.ts';
import { inAll } from './search-trigrams.ts';
import { instantOf, timesOf } from './transfer-filter.ts';

/** A part of a segment has at most so many candidates. */
const PART = 100;

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
export interface Part {
  segment: number;
  starts: string;
  ends: string;
  /** The numbers of the texts that may have the words. Null: all of the segment. */
  numbers: number[] | null;
}

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

/** Returns the parts of some segments that may have texts of all lists, in the order of the search. */
export async function findParts(
  tx: Transaction,
  search: Search,
  segments: Segment[],
  lists: number[],
): Promise<Part[]> {
  const indexed = lists.length === 0 ? [] : segments.filter(({ texts }) => texts !== null);
  const parts: Part[] = segments
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
  const split = await Promise.all(parts.map((part) => splitPart(tx, part)));
  return inOrderOf(search, split.flat());
}

/**
 * Splits a part with many candidates by their times. So a search of a common word, or of some days,
 * reads few of them.
 */
async function splitPart(tx: Transaction, { numbers, ...part }: Part): Promise<Part[]> {
  if (numbers === null || numbers.length <= PART) return [{ ...part, numbers }];
  const starts = new Map(
    numbers.flatMap((number, i): [number, number][] =>
      i > 0 && i % PART === 0 ? [[number, i]] : [],
    ),
  );
  // Transfers that left the log are no bounds.
  const bounds = await tx<{ number: number; created_at: string }[]>`
    select number, created_at from read.transfer_search
     where segment = ${part.segment} and number = any(${[...starts.keys()]}::integer[])
     order by number`;
  const first = { number: numbers[0] as number, created_at: part.starts };
  return [first, ...bounds].map(({ number, created_at }, i) => ({
    segment: part.segment,
    starts: created_at,
    ends: bounds[i]?.created_at ?? part.ends,
    numbers: numbers.slice(starts.get(number) ?? 0, starts.get(bounds[i]?.number ?? -1)),
  }));
}

/** Returns those whose times the search may show, in its order. */
function inOrderOf<Times extends Pick<Part, 'starts' | 'ends'>>(
  { filter, order, after }: Search,
  times: Times[],
): Times[] {
  const { beyond } = timesOf(filter);
  const from = filter.from === undefined ? '' : instantOf(Date.parse(filter.from));
  const newestFirst = order === '-created_at';
  const follows = ({ starts, ends }: Times) =>
    !after || (newestFirst ? starts <= after.created_at : ends >= after.created_at);
  return times
    .filter((one) => one.ends >= from && one.starts < beyond && follows(one))
    .sort((a, b) => (newestFirst ? compare(b.ends, a.ends) : compare(a.starts, b.starts)));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
