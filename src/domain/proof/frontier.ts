import { EMPTY_ROOT, type Hash, nodeHash } from './hash.ts';

/** A tree of which only the right edge is kept. It takes leaves one by one. */
export interface Frontier {
  size(): number;
  /** Appends the hash of a leaf. */
  append(leaf: Hash): void;
  /** Returns the root of the tree. */
  root(): Hash;
  /** Returns what `createFrontier` needs to continue: the perfect subtrees, from left to right. */
  subtrees(): Hash[];
}

/**
 * Creates a tree that takes leaves one by one and returns its root. It keeps one hash for each bit
 * that is set in its size. Continues a tree of `size` leaves with the subtrees of its frontier.
 */
export function createFrontier(size = 0, subtrees: Hash[] = []): Frontier {
  const edge = [...subtrees];
  if (edge.length !== bitsSet(size))
    throw new RangeError(`a tree of ${size} leaves has ${bitsSet(size)} subtrees at its edge`);

  return {
    size: () => size,
    append(leaf) {
      let right = leaf;
      for (let rest = size; rest % 2 === 1; rest = (rest - 1) / 2)
        right = nodeHash(edge.pop() as Hash, right);
      edge.push(right);
      size += 1;
    },
    root: () => edge.reduceRight<Hash | null>(joined, null) ?? EMPTY_ROOT,
    subtrees: () => [...edge],
  };
}

function joined(right: Hash | null, left: Hash): Hash {
  return right === null ? left : nodeHash(left, right);
}

function bitsSet(size: number): number {
  return size.toString(2).replaceAll('0', '').length;
}
