import { type Hash, nodeHash } from './hash.ts';
import type { Range } from './tiles.ts';

/**
 * Returns the subtrees whose hashes are the audit path of a leaf (RFC 6962, section 2.1.1), from
 * the leaf up. Throws RangeError for a leaf that the tree lacks.
 */
export function inclusionRanges(index: number, size: number): Range[] {
  if (!(index >= 0 && index < size))
    throw new RangeError(`a tree of ${size} leaves has no leaf ${index}`);
  const ranges: Range[] = [];
  let [start, end] = [0, size];
  while (end - start > 1) {
    const middle = start + powerBelow(end - start);
    if (index < middle) {
      ranges.push({ start: middle, end });
      end = middle;
    } else {
      ranges.push({ start, end: middle });
      start = middle;
    }
  }
  return ranges.reverse();
}

/**
 * Returns the subtrees whose hashes prove that a tree of `size` leaves begins with the tree of
 * `from` leaves (RFC 6962, section 2.1.2). Throws RangeError if it is the smaller one.
 */
export function consistencyRanges(from: number, size: number): Range[] {
  if (!(from >= 0 && from <= size))
    throw new RangeError(`a tree of ${size} leaves does not begin with ${from} leaves`);
  const ranges: Range[] = [];
  if (from === 0 || from === size) return ranges;
  let [start, end] = [0, size];
  // The verifier knows the root of the smaller tree. A subtree that is all of it needs no hash.
  while (from < end) {
    const middle = start + powerBelow(end - start);
    if (from <= middle) {
      ranges.push({ start: middle, end });
      end = middle;
    } else {
      ranges.push({ start, end: middle });
      start = middle;
    }
  }
  if (start > 0) ranges.push({ start, end });
  return ranges.reverse();
}

/**
 * Returns the root that follows from a leaf and its audit path; null if the path has a wrong
 * length (RFC 9162, section 2.1.3.2).
 */
export function rootOfInclusion(
  leaf: Hash,
  index: number,
  size: number,
  path: readonly Hash[],
): Hash | null {
  if (!(index >= 0 && index < size)) return null;
  const ranges = inclusionRanges(index, size);
  if (ranges.length !== path.length) return null;
  return path.reduce(
    (hash, sibling, i) =>
      (ranges[i] as Range).start > index ? nodeHash(hash, sibling) : nodeHash(sibling, hash),
    leaf,
  );
}

/** Returns the largest power of two that is smaller than `count`, which is at least 2. */
function powerBelow(count: number): number {
  let power = 1;
  while (power * 2 < count) power *= 2;
  return power;
}
