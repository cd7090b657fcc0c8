import type { TreeHead } from './checkpoint.ts';
import { EMPTY_ROOT, type Hash, nodeHash, sameHash } from './hash.ts';
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

/** Returns whether a proof shows that the larger of two trees begins with the smaller one. */
export function isConsistent(
  smaller: Pick<TreeHead, 'size' | 'root'>,
  larger: Pick<TreeHead, 'size' | 'root'>,
  proof: readonly Hash[],
): boolean {
  const [from, size] = [smaller.size, larger.size];
  if (from > size) return false;
  if (from === size) return proof.length === 0 && sameHash(smaller.root, larger.root);
  if (from === 0) return proof.length === 0 && sameHash(smaller.root, EMPTY_ROOT);
  const ranges = consistencyRanges(from, size);
  if (ranges.length !== proof.length) return false;
  // The first hash is the part of the smaller tree that both trees share as one subtree.
  const shared = ranges[0]?.start === from ? null : (ranges[0] as Range);
  let oldRoot = shared === null ? smaller.root : (proof[0] as Hash);
  let newRoot = oldRoot;
  for (let i = shared === null ? 0 : 1; i < proof.length; i += 1) {
    const hash = proof[i] as Hash;
    if ((ranges[i] as Range).start < from) {
      oldRoot = nodeHash(hash, oldRoot);
      newRoot = nodeHash(hash, newRoot);
    } else newRoot = nodeHash(newRoot, hash);
  }
  return sameHash(oldRoot, smaller.root) && sameHash(newRoot, larger.root);
}

/** Returns the largest power of two that is smaller than `count`, which is at least 2. */
function powerBelow(count: number): number {
  let power = 1;
  while (power * 2 < count) power *= 2;
  return power;
}
