import { EMPTY_ROOT, type Hash, nodeHash, sameHash } from '../../src/domain/proof/hash.ts';
import { consistencyRanges } from '../../src/domain/proof/proofs.ts';
import type { Range } from '../../src/domain/proof/tiles.ts';

/** Returns whether a proof shows that the larger of two trees begins with the smaller one. */
export function verifyConsistency(
  smaller: { size: number; root: Hash },
  larger: { size: number; root: Hash },
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
