import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { createFrontier } from '../../domain/proof/frontier.ts';
import { type Hash, sameHash } from '../../domain/proof/hash.ts';
import type { Fault } from './fault.ts';
import type { KeptCheckpoint } from './kept-checkpoints.ts';
import { type Agreed, signedDifferences } from './signed-differences.ts';

/** What a later run needs to continue. */
export interface ComparedTreeState {
  subtrees: Hash[];
  agreed: Agreed | null;
  /** The size of the first checkpoint that does not fit. */
  differsAt: number | null;
}

/** The tree over the log, as far as it was read. */
export interface ComparedTree {
  /** Appends a leaf. If a checkpoint has the size that the tree then has, compares the roots. */
  append(leaf: Hash, position: bigint): void;
  /** Names what differs, if a checkpoint does not fit. The whole log must have been appended. */
  faultsAtEnd(deps: { store: EventStore; sql: Sql }): AsyncIterable<Fault>;
  /** Returns the newest checkpoint with which the log agrees. */
  agreedCheckpoint(): KeptCheckpoint | null;
  state(): ComparedTreeState;
}

/** Compares a log with checkpoints, in order of their size. `size`: what an earlier run has read. */
export function createComparedTree(
  checkpoints: KeptCheckpoint[],
  size: number,
  { subtrees, agreed, differsAt }: ComparedTreeState,
): ComparedTree {
  const tree = createFrontier(size, subtrees);
  const kept = Map.groupBy(checkpoints, (checkpoint) => checkpoint.size);

  return {
    append(leaf, position) {
      tree.append(leaf);
      const heads = kept.get(tree.size());
      if (differsAt !== null || heads === undefined) return;
      const root = tree.root();
      if (heads.some((head) => sameHash(head.root, root)))
        agreed = { size: tree.size(), position, subtrees: tree.subtrees() };
      else differsAt = tree.size();
    },
    async *faultsAtEnd(deps) {
      const largest = checkpoints.at(-1);
      if (largest && (differsAt !== null || largest.size > tree.size()))
        yield* signedDifferences(deps, checkpoints, agreed, differsAt);
    },
    agreedCheckpoint: () => checkpoints.findLast((one) => one.size === agreed?.size) ?? null,
    state: () => ({ subtrees: tree.subtrees(), agreed, differsAt }),
  };
}
