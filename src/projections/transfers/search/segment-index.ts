/*
 * The index of a segment of searches (projection.ts), as it is stored: a row for each list of
 * trigrams (trigrams.ts).
 */
import type { Transaction } from '../../../adapters/postgres/connect.ts';
import { createTrigramIndex, inAll, type TextList } from './trigrams.ts';

/** How many texts are indexed, and how many lists are saved at a time. Requests wait meanwhile. */
const TEXTS_AT_ONCE = 500;
const LISTS_AT_ONCE = 1_024;

/** Creates the index of a segment. Returns the number of its texts. */
export async function createIndex(
  tx: Transaction,
  schema: string,
  segment: number,
): Promise<number> {
  const [{ texts }] = await tx<[{ texts: number }]>`
    select count(*)::integer as texts from ${tx(schema)}.transfer_search
     where segment = ${segment}`;
  const trigrams = await readTexts(tx, schema, segment, texts);
  for (const lists of trigrams.lists(LISTS_AT_ONCE)) {
    const bytes = Buffer.concat(lists.map(({ numbers }) => numbers));
    // The lists are one value: an array of so many takes the driver longer.
    await tx`
      insert into ${tx(schema)}.transfer_search_trigrams (segment, list, numbers)
      select ${segment}::integer, list, substring(${bytes}::bytea from start for length)
        from (
          select list, length, (sum(length) over (order by list) - length + 1)::integer
            from unnest(${lists.map(({ list }) => list)}::integer[],
                        ${lists.map(({ numbers }) => numbers.length)}::integer[]) l(list, length)
        ) as l(list, length, start)`;
  }
  return texts;
}

/**
 * Returns the segments whose index does not find each of their texts. An index may also have the
 * numbers of transfers that left the log: a search compares the texts.
 */
export async function wrongIndexes(tx: Transaction, schema: string): Promise<number[]> {
  const segments = await tx<{ segment: number; texts: number }[]>`
    select segment, texts from ${tx(schema)}.transfer_search_segments order by segment`;
  const wrong: number[] = [];
  for (const { segment, texts } of segments)
    if (!(await isIndexed(tx, schema, segment, texts))) wrong.push(segment);
  return wrong;
}

async function isIndexed(
  tx: Transaction,
  schema: string,
  segment: number,
  texts: number,
): Promise<boolean> {
  const trigrams = await readTexts(tx, schema, segment, texts);
  for (const lists of trigrams.lists(LISTS_AT_ONCE)) {
    const rows = await tx<TextList[]>`
      select list, numbers from ${tx(schema)}.transfer_search_trigrams
       where segment = ${segment} and list = any(${lists.map(({ list }) => list)}::integer[])`;
    const stored = new Map(rows.map(({ list, numbers }) => [list, numbers]));
    for (const { list, numbers } of lists) {
      const found = stored.get(list);
      if (found === undefined) return false;
      if (Buffer.compare(found, numbers) === 0) continue;
      const indexed = new Set(inAll([found], texts));
      if (!inAll([numbers], texts).every((number) => indexed.has(number))) return false;
    }
  }
  return true;
}

/** Indexes the texts of a segment in memory. Transfers that left the log have no text. */
async function readTexts(tx: Transaction, schema: string, segment: number, texts: number) {
  const trigrams = createTrigramIndex();
  for (let first = 0; first < texts; first += TEXTS_AT_ONCE) {
    const end = Math.min(first + TEXTS_AT_ONCE, texts);
    const rows = await tx<{ number: number; text: string }[]>`
      select number, text from ${tx(schema)}.transfer_search
       where segment = ${segment} and number >= ${first}::integer and number < ${end}::integer`;
    const found = new Map(rows.map(({ number, text }) => [number, text]));
    for (let number = first; number < end; number++) trigrams.add(found.get(number) ?? '');
  }
  return trigrams;
}
