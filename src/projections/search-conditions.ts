/*
 * What a search asks of the rows of its segments: all words, and the other filters.
 */
import type { Fragment, Transaction } from '../adapters/postgres/connect.ts';
import type { Search, Segment } from './search-queries.ts';
import { hasTrigram, indexPattern, isLong, likePattern, searchWords } from './search-text.ts';
import { passes } from './transfer-filter.ts';

/** If no more transfers than this pass the other filters, a search reads these first. */
export const FEW = 2_000;
/** How many texts of a segment show which parts of a word are frequent. */
const SAMPLE = 50;

/**
 * Returns some texts of the first segment, the last, and one between them, if the words of a search
 * are so long that it needs them. Names have dates, so texts of one time show too little.
 */
export async function sampleTexts(
  tx: Transaction,
  { accountId, filter }: Search,
  segments: Segment[],
): Promise<string[]> {
  if (segments.length === 0 || !wordsOf(filter).some(isLong)) return [];
  const sampled = [segments[0], segments[segments.length >> 1], segments.at(-1)];
  const numbers = [...new Set(sampled.flatMap((one) => one?.segment ?? []))];
  const texts = numbers.map(
    (segment) => tx`
      (select text from read.transfer_search
        where segment = ${segment} and account_id = ${accountId} limit ${SAMPLE})`,
  );
  const rows = await tx<{ text: string }[]>`
    select null as text where false ${texts.map((one) => tx`union all ${one}`)}`;
  return rows.map(({ text }) => text);
}

/** Returns the condition for a text with all words. */
export function hasAllWords(tx: Transaction, filter: Search['filter'], sample: string[]): Fragment {
  return wordsOf(filter).reduce((others, word) => {
    const whole = likePattern(word);
    // An index of trigrams would be read as a whole for a text without any.
    if (!hasTrigram(word)) return tx`${others} and text || '' like ${whole}`;
    if (!isLong(word)) return tx`${others} and text like ${whole}`;
    return tx`${others} and text like ${indexPattern(word, sample)} and text || '' like ${whole}`;
  }, tx`true`);
}

/**
 * Returns the words that a text must have. It has those of the destination too. Asking for the
 * destination of every match of the others would take longer.
 */
function wordsOf({ q, destination = '' }: Search['filter']): string[] {
  return [...searchWords(q), ...searchWords(destination)];
}

/**
 * Returns what the other filters ask of the matches `m` in some segments. If few transfers of that
 * time pass, the statement reads them first. Otherwise it looks the matches up one by one.
 */
export async function passesOthers(
  tx: Transaction,
  { accountId, filter }: Search,
  segments: Segment[],
): Promise<Record<'few' | 'ofFew' | 'ofMany', Fragment>> {
  const { status, destination, retryOf, batchId } = filter;
  const none = { few: tx`select`, ofFew: tx``, ofMany: tx`true` };
  if ([status, destination, retryOf, batchId].every((value) => value === undefined)) return none;
  // `is true` keeps the planner from joins, whose costs it misjudges here.
  const own = tx`read.transfers where ${passes(tx, accountId, filter)}`;
  // The limit also tells the planner that the list fits into a hash table.
  const passing = tx`
    select transfer_id from ${own}
       and created_at >= ${earliest(segments)}::text::timestamptz
       and created_at <= ${latest(segments)}::text::timestamptz
     limit ${FEW + 1}`;
  const [few] = await tx<{ passing: number }[]>`
    select count(*)::integer as passing from (${passing}) p`;
  return (few?.passing ?? 0) > FEW
    ? { ...none, ofMany: tx`(exists (select from ${own} and transfer_id = m.transfer_id)) is true` }
    : {
        ...none,
        few: passing,
        ofFew: tx`and (transfer_id in (select transfer_id from passing)) is true`,
      };
}

function earliest(segments: Segment[]): string {
  return segments.reduce((a, b) => (a.starts < b.starts ? a : b)).starts;
}

function latest(segments: Segment[]): string {
  return segments.reduce((a, b) => (a.ends > b.ends ? a : b)).ends;
}
