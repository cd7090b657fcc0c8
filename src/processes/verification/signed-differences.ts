import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { parseStream } from '../../domain/events/streams.ts';
import { createFrontier } from '../../domain/proof/frontier.ts';
import { type Hash, sameHash } from '../../domain/proof/hash.ts';
import { hashOfAnyLeaf } from '../../domain/proof/leaf.ts';
import { type EventName, readLeaves, type StoredLeaf } from '../../projections/proof/leaves.ts';
import { readLog } from '../../projections/read-log.ts';
import { createRemovedLeaves } from '../../projections/retention/removed-leaves.ts';
import { recordedHashes } from '../../projections/retention/removed-transfers.ts';
import { compareTrees, type LoggedLeaf, type TreeDifference } from './compare-trees.ts';
import { type Fault, nowhere } from './fault.ts';
import type { KeptCheckpoint } from './kept-checkpoints.ts';

const BATCH = 5_000;

/** The place up to which the log agrees with a checkpoint. */
export interface Agreed {
  size: number;
  position: bigint;
  subtrees: Hash[];
}

interface Stores {
  store: EventStore;
  sql: Sql;
}

/**
 * Names what was changed, removed, inserted or moved since the checkpoints, as far as the stored
 * tree tells. The stored tree proves itself: it counts only up to a size at which it has the root
 * that was signed.
 */
export async function* signedDifferences(
  deps: Stores,
  checkpoints: KeptCheckpoint[],
  agreed: Agreed | null,
  differsAt: number | null,
): AsyncGenerator<Fault> {
  const start = agreed?.size ?? 0;
  const later = checkpoints.filter(({ size }) => size > start);
  // A log that ends before one of them ends before all of them.
  const { size, source } = later.at(differsAt === null ? -1 : 0) as KeptCheckpoint;
  yield nowhere(
    'checkpoint',
    differsAt === null
      ? `the log ends before the ${size} events that ${source} signs`
      : `the first ${size} events of the log are not those that ${source} signs`,
  );
  const proven = await provenSize(deps, later, agreed);
  if (proven === null) {
    yield nowhere(
      'checkpoint',
      `the stored tree does not have them as they were signed, so the events have no names. They ` +
        `are among the events ${start + 1} to ${size} of the log` +
        (agreed === null ? '' : `, after position ${agreed.position}`),
    );
    return;
  }
  const from = agreed?.position ?? null;
  const { found, more } = await compareTrees(
    withoutRecorded(deps, signedLeaves(deps, start, proven), from),
    loggedLeaves(deps, from),
  );
  const gone = new Map<string, boolean>();
  for (const difference of found) yield await faultOf(deps, difference, gone);
  if (more > 0) yield nowhere('checkpoint', `${more} more events differ`);
}

/**
 * Returns the size of the largest checkpoint whose root the stored tree has; null if there is none.
 */
async function provenSize(
  deps: Stores,
  checkpoints: KeptCheckpoint[],
  agreed: Agreed | null,
): Promise<number | null> {
  const tree = createFrontier(agreed?.size ?? 0, agreed?.subtrees);
  let proven: number | null = null;
  let next = 0;
  const until = (checkpoints.at(-1) as KeptCheckpoint).size;
  for await (const { hash } of signedLeaves(deps, tree.size(), until)) {
    tree.append(hash);
    for (; checkpoints[next]?.size === tree.size(); next++)
      if (sameHash(tree.root(), (checkpoints[next] as KeptCheckpoint).root)) proven = tree.size();
  }
  return proven;
}

/** Yields the leaves of the stored tree, up to the first that it lacks. */
async function* signedLeaves(
  { sql }: Stores,
  start: number,
  end: number,
): AsyncGenerator<StoredLeaf> {
  for (let from = start; from < end; ) {
    const leaves = await readLeaves(sql, from, Math.min(end, from + BATCH));
    if (leaves.length === 0) return;
    yield* leaves;
    from += leaves.length;
  }
}

/**
 * Leaves out what a record of retention names at the same place in the tree. A place in the log does
 * not tell the place in the tree: events may have been removed or inserted before it.
 */
async function* withoutRecorded(
  { store }: Stores,
  leaves: AsyncIterable<StoredLeaf>,
  from: bigint | null,
): AsyncGenerator<StoredLeaf> {
  const removed = createRemovedLeaves(store, from, { looksOnce: true });
  for await (const leaf of leaves) {
    const woven = await removed.weave(leaf.index, [leaf], ({ hash }) => hash);
    if (woven.every(({ leaf, removed }) => leaf === null || removed === null)) yield leaf;
  }
}

/** Yields the leaves of the log without those that a record of retention names. */
async function* loggedLeaves(deps: Stores, from: bigint | null): AsyncGenerator<LoggedLeaf> {
  for await (const { events } of readLog(deps.store, { from, batchSize: BATCH })) {
    const transfers = events.map(({ stream }) => parseStream(stream));
    const ids = transfers.flatMap(({ kind, id }) => (kind === 'transfer' ? id : []));
    const recorded = await recordedHashes(deps, [...new Set(ids)]);
    for (const event of events) {
      if (event.isForeign) continue;
      const hash = hashOfAnyLeaf(event);
      if (recorded.get(event.id) === Buffer.from(hash).toString('hex')) continue;
      yield { hash, name: nameOf(event), position: event.position };
    }
  }
}

function nameOf({ stream, revision, id }: EventName): EventName {
  return { stream, revision, id };
}

async function faultOf(
  { store }: Stores,
  difference: TreeDifference,
  gone: Map<string, boolean>,
): Promise<Fault> {
  if (difference.kind === 'removed') {
    const { was, index, atEnd } = difference;
    if (was === null) return nowhere('checkpoint', `event ${index + 1} of the signed log is gone`);
    if (!gone.has(was.stream)) gone.set(was.stream, (await store.read(was.stream)).length === 0);
    const place = { stream: was.stream, revision: was.revision, event_id: was.id };
    return {
      check: 'checkpoint',
      ...place,
      position: null,
      problem:
        `it was signed as event ${index + 1} of the log, and is gone` +
        (gone.get(was.stream) ? ', with its whole stream' : '') +
        (atEnd ? ': the end of the signed log was cut off' : ''),
    };
  }
  const { now } = difference;
  const { stream, revision, id: event_id } = now.name;
  const problem = wordsFor(difference);
  return { check: 'checkpoint', stream, revision, event_id, position: now.position, problem };
}

function wordsFor(difference: Exclude<TreeDifference, { kind: 'removed' }>): string {
  switch (difference.kind) {
    case 'changed': {
      const { was, now, index } = difference;
      return was.id === now.name.id
        ? `it was changed since it was signed as event ${index + 1} of the log`
        : `it replaces ${was.id}, which was signed as event ${index + 1} of the log`;
    }
    case 'moved':
      return `it was signed as event ${difference.index + 1} of the log, and is now elsewhere in it`;
    case 'inserted':
      return 'it was not signed, and stands among events that were: it was inserted';
  }
}
