/*
 * What a search asks of the rows of its segments: all words, and the other filters.
 */
import type { Fragment, Transaction } from '../../../adapters/postgres/connect.ts';
import type { SortOrder } from '../../../domain/transfers/transfer.ts';
import { searchWords } from '../../lists.ts';
import { asksMoreThan, type ListPlace, passes, type TransferFilter } from '../filter.ts';
import { likePattern } from './text.ts';

/** What a search asks for. */
export interface Search {
  accountId: string;
  filter: TransferFilter & { q: string };
  order: SortOrder;
  /** Finds only what follows this place. */
  after?: ListPlace | null;
  /** How many places to return. */
  rows: number;
  /** How far to count; at least `rows`. */
  count: number;
  /** Reads all segments also for words that no index knows, however long it takes. */
  thorough?: boolean;
  /** How long it may take if it is not thorough, in milliseconds. */
  withinMs?: number;
}

/** A part of a segment, which one statement reads. */
export interface SegmentPart {
  segment: number;
  starts: string;
  ends: string;
  /** The numbers of the texts that may have the words. Null: all of the segment. */
  numbers: number[] | null;
}

/** If no more transfers than this pass the other filters, a search reads these first. */
export const FEW = 2_000;

/** Returns the condition for a text with all words. */
export function hasAllWords(tx: Transaction, filter: Search['filter']): Fragment {
  return wordsOf(filter).reduce(
    (others, word) => tx`${others} and text like ${likePattern(word)}`,
    tx`true`,
  );
}

/**
 * Returns the words that a text must have. It has those of the destination too. Asking for the
 * destination of every match of the others would take longer.
 */
export function wordsOf({ q, destination = '' }: Search['filter']): string[] {
  return [...searchWords(q), ...searchWords(destination)];
}

/**
 * Returns what the other filters ask of the matches `m` in some parts of segments. If few transfers
 * of that time pass, the statement reads them first. Otherwise it looks the matches up one by one.
 */
export async function passesOthers(
  tx: Transaction,
  { accountId, filter }: Search,
  parts: SegmentPart[],
): Promise<Record<'few' | 'ofFew' | 'ofMany', Fragment>> {
  const none = { few: tx`select`, ofFew: tx``, ofMany: tx`true` };
  if (!asksMoreThan(filter, 'q', 'from', 'to')) return none;
  // `is true` keeps the planner from joins, whose costs it misjudges here.
  const own = tx`read.transfers where ${passes(tx, accountId, filter)}`;
  // The limit also tells the planner that the list fits into a hash table.
  const passing = tx`
    select transfer_id from ${own}
       and created_at >= ${earliest(parts)}::text::timestamptz
       and created_at <= ${latest(parts)}::text::timestamptz
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

function earliest(parts: SegmentPart[]): string {
  return parts.reduce((a, b) => (a.starts < b.starts ? a : b)).starts;
}

function latest(parts: SegmentPart[]): string {
  return parts.reduce((a, b) => (a.ends > b.ends ? a : b)).ends;
}
