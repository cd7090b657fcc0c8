import { useState } from 'preact/hooks';
import { STEP } from './more-button.tsx';

/** A row, or rows that are left out between two others. */
export type Entry<T> = { row: T; index: number } | GapInList;

export interface GapInList {
  hidden: number;
  /** Index of the first row that is left out. It stays the same when some of them are shown. */
  start: number;
  /** Shows the newest of the rows that are left out. */
  reveal: () => void;
}

/** What a long list shows at first. */
const FIRST = 3;
const LAST = 40;
/** Neighbours of the chosen row. */
const AROUND = 3;
/** A list that is little longer than that shows everything. */
const SHORT = 60;

/**
 * Leaves out the middle of a long list, so that a transfer of thousands of attempts opens as fast
 * as any other. The row at `chosen` and its neighbours are always shown.
 */
export function useGaps<T>(rows: T[], chosen = -1): Entry<T>[] {
  /** Indexes. More rows at the end change none of them. */
  const [revealed, setRevealed] = useState<ReadonlySet<number>>(new Set());
  const isShown = (index: number) =>
    rows.length <= SHORT ||
    index < FIRST ||
    index >= rows.length - LAST ||
    (chosen >= 0 && Math.abs(index - chosen) <= AROUND) ||
    revealed.has(index);
  const entries: Entry<T>[] = [];
  let start = 0;
  rows.forEach((row, index) => {
    if (isShown(index)) entries.push({ row, index });
    else if (isShown(index - 1)) start = index;
    if (isShown(index) || !isShown(index + 1)) return;
    const end = index + 1;
    const from = Math.max(start, end - STEP);
    const reveal = () =>
      setRevealed(
        (before) =>
          new Set([...before, ...Array.from({ length: end - from }, (_, at) => from + at)]),
      );
    entries.push({ hidden: end - start, start, reveal });
  });
  return entries;
}
