import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { originOf } from '../../domain/proof/checkpoint.ts';
import { createFrontier } from '../../domain/proof/frontier.ts';
import { HASH_BYTES, type Hash, sameHash } from '../../domain/proof/hash.ts';
import type { CheckpointSigned } from '../../domain/proof/signed-checkpoint.ts';
import type { EventName } from '../../projections/proof/leaves.ts';
import type { Fault } from './fault.ts';
import type { KeptCheckpoint } from './kept-checkpoints.ts';
import { type Agreed, signedDifferences } from './signed-differences.ts';

/**
 * Leaves that wait for a checkpoint in the log: its event follows what it signs. A signer appends
 * within seconds, unless the tables of the tree were far behind.
 */
const WAITING = 20_000;

/** A leaf, and the position of its event in the log. */
export interface PlacedLeaf {
  hash: Hash;
  position: bigint;
}

/** What a later run needs to continue. */
export interface ComparedTreeState {
  /** Of the tree over all leaves but those that wait. */
  subtrees: Hash[];
  waiting: PlacedLeaf[];
  agreed: Agreed | null;
  /** The size of the first kept checkpoint that does not fit. */
  differsAt: number | null;
  /** The last checkpoint in the log that fits, and the first that does not. */
  agreedInLog: Agreed | null;
  contradicts: KeptCheckpoint | null;
}

/** The tree over the log, as far as it was read. */
export interface ComparedTree {
  /** Appends a leaf. */
  append(leaf: PlacedLeaf): void;
  /**
   * Compares a checkpoint in the log with the leaves before it. A key of the log must have signed
   * it. Skips one that signs far fewer leaves: a later one signs them, too.
   */
  compareLogged(signed: CheckpointSigned, event: EventName): void;
  /** Names what differs, if a checkpoint does not fit. The whole log must have been appended. */
  faultsAtEnd(deps: { store: EventStore; sql: Sql }): AsyncIterable<Fault>;
  /** Returns the newest kept checkpoint with which the log agrees. Call it after `faultsAtEnd`. */
  agreedCheckpoint(): KeptCheckpoint | null;
  /** Returns how many events the last checkpoint in the log signs that fits; null if none does. */
  signedInLog(): number | null;
  state(): ComparedTreeState;
}

/**
 * Compares a log with checkpoints that were kept, in order of their size, and with those that it has
 * itself. `size`: the leaves that an earlier run has read.
 */
export function createComparedTree(
  logId: string,
  checkpoints: KeptCheckpoint[],
  size: number,
  { subtrees, waiting: known, ...found }: ComparedTreeState,
): ComparedTree {
  const tree = createFrontier(size - known.length, subtrees);
  const kept = Map.groupBy(checkpoints, (checkpoint) => checkpoint.size);
  const waiting = createLeafQueue(known);
  let { agreed, differsAt, agreedInLog, contradicts } = found;

  /** Of the last leaf of the tree. Null if an earlier run has added it. */
  let position: bigint | null = null;

  const leaves = () => tree.size() + waiting.length();

  /** Adds waiting leaves until the tree has this size. */
  function growTo(wanted: number): void {
    while (tree.size() < wanted) {
      const leaf = waiting.take();
      tree.append(leaf.hash);
      position = leaf.position;
      compareKept(position);
    }
  }

  function compareKept(position: bigint): void {
    const heads = kept.get(tree.size());
    if (differsAt !== null || heads === undefined) return;
    const root = tree.root();
    if (heads.some((head) => sameHash(head.root, root)))
      agreed = { size: tree.size(), position, subtrees: tree.subtrees() };
    else differsAt = tree.size();
  }

  return {
    append(leaf) {
      waiting.add(leaf);
      growTo(leaves() - WAITING);
    },
    compareLogged({ size, root_hash }, { stream, revision, id }) {
      if (contradicts !== null || size < tree.size()) return;
      const root = Buffer.from(root_hash, 'hex');
      // If events before it were removed, it signs more than there are.
      growTo(Math.min(size, leaves()));
      if (size > tree.size() || !sameHash(tree.root(), root)) {
        const source = `${stream} revision ${revision} (${id})`;
        contradicts = { source, origin: originOf(logId), size, root };
      } else if (position !== null) agreedInLog = { size, position, subtrees: tree.subtrees() };
    },
    async *faultsAtEnd(deps) {
      growTo(leaves());
      const largest = checkpoints.at(-1);
      if (largest && (differsAt !== null || largest.size > tree.size()))
        yield* signedDifferences(deps, checkpoints, agreed, differsAt);
      else if (contradicts !== null)
        yield* signedDifferences(deps, [contradicts], agreedInLog, contradicts.size);
    },
    agreedCheckpoint: () => checkpoints.findLast((one) => one.size === agreed?.size) ?? null,
    signedInLog: () => agreedInLog?.size ?? null,
    state: () => ({
      ...{ subtrees: tree.subtrees(), waiting: waiting.all() },
      ...{ agreed, differsAt, agreedInLog, contradicts },
    }),
  };
}

/**
 * Creates a queue of at most `WAITING` leaves and one. It copies them into one buffer: V8 would
 * move each to the old generation.
 */
function createLeafQueue(known: readonly PlacedLeaf[]) {
  const room = WAITING + 1;
  const hashes = new Uint8Array(room * HASH_BYTES);
  const positions = new BigInt64Array(room);
  let first = 0;
  let length = 0;

  function at(i: number): PlacedLeaf {
    const place = (first + i) % room;
    const from = place * HASH_BYTES;
    return {
      hash: Buffer.from(hashes.subarray(from, from + HASH_BYTES)),
      position: positions[place] as bigint,
    };
  }

  function add({ hash, position }: PlacedLeaf): void {
    const place = (first + length++) % room;
    hashes.set(hash, place * HASH_BYTES);
    positions[place] = position;
  }

  for (const leaf of known) add(leaf);
  return {
    length: () => length,
    add,
    take() {
      const leaf = at(0);
      first = (first + 1) % room;
      length--;
      return leaf;
    },
    all: () => Array.from({ length }, (_, i) => at(i)),
  };
}
