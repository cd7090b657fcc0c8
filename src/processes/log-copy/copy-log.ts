/*
 * Copies a log into an empty event store, event by event and in the same order, with ids, revisions
 * and hashes. Positions are of the engine, so they differ. The copy has the same Merkle tree.
 *
 * What can go wrong:
 * - It is interrupted anywhere. The next run compares the copy with the log, and continues at the
 *   end of the copy. It also finds an append whose answer was lost.
 * - The copy has other events. It stops there, and changes nothing.
 * - Transfers left the log by retention. Their records go into the copy, so it has the same tree.
 *   What an earlier run copied of these transfers leaves the copy too.
 * - The log grows meanwhile. The copy ends where the log ended when it was reached; the next run
 *   copies the rest.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import { RevisionConflict } from '../../adapters/event-store/port.ts';
import { DomainError } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { RETENTION } from '../../domain/events/streams.ts';
import { createFrontier, type Frontier } from '../../domain/proof/frontier.ts';
import { type Hash, sameHash } from '../../domain/proof/hash.ts';
import { hashOfLeaf, leafOf } from '../../domain/proof/leaf.ts';
import { retentionRecords, streamsOf } from '../../domain/retention.ts';
import { readLog } from '../../projections/read-log.ts';
import { createRemovedLeaves } from '../../projections/retention/removed-leaves.ts';

/** Most events of one append, and most bytes of their data. An EventStoreDB takes 1 MiB at a time. */
const APPENDED = 20;
const APPENDED_BYTES = 512 << 10;

export interface Copied {
  /** Events of the log, all of which the copy has. */
  events: number;
  /** How many of them this run appended. */
  appended: number;
  /** The root of both trees. */
  root: Hash;
}

/**
 * Copies what the other store lacks, then compares the trees of both. Throws `validation_failed` if
 * the other store has another log, and EventStoreUnavailable.
 */
export async function copyLog(
  log: EventStore,
  copy: EventStore,
  onProgress: (events: number, share: number) => void,
): Promise<Copied> {
  const head = Number((await log.head()) ?? 0n);
  const tree = createFrontier();
  const removed = createRemovedLeaves(log, null);
  const copied = await readCopied(copy);
  const appender = createAppender(copy);
  let events = 0;
  /** Events that the copy has, and that have left the log since. */
  let left = 0;
  for await (const batch of readLog(log, { from: null })) {
    for (const { leaf: event, removed: gone } of await removed.weave(
      tree.size(),
      batch.events,
      hashOfLeaf,
    )) {
      tree.append(event ? hashOfLeaf(event) : gone.hash);
      if (gone !== null) {
        // An earlier run has copied it.
        if (await copied.skip((next) => sameHash(hashOfLeaf(next), gone.hash))) left++;
        continue;
      }
      events++;
      if (copied.hasEnded()) await appender.add(event);
      else if (!(await copied.skip((next) => leafOf(next) === leafOf(event))))
        throw otherLog(tree.size());
    }
    await appender.flush();
    onProgress(events, head === 0 ? 1 : Number(batch.position) / head);
  }
  if (!copied.hasEnded()) throw otherLog(tree.size() + 1);
  if (left > 0) await removeRecorded(copy);
  const result = await treeOf(copy);
  if (!sameHash(result.root(), tree.root())) throw otherLog(result.size());
  return { events, appended: appender.appended(), root: tree.root() };
}

/** Reads what earlier runs have copied, one event after the other. */
async function readCopied(copy: EventStore) {
  const events = eventsOf(copy);
  let next = await events.next();
  return {
    hasEnded: () => next.done === true,
    /** Passes the next event if it is the expected one. Returns false, and stays, if it is not. */
    async skip(isExpected: (event: StoredEvent) => boolean): Promise<boolean> {
      if (next.done || !isExpected(next.value)) return false;
      next = await events.next();
      return true;
    },
  };
}

/** Appends events to the copy: those of one stream in a row share an append. */
function createAppender(copy: EventStore) {
  let appended = 0;
  let run: StoredEvent[] = [];
  let bytes = 0;

  async function flush(): Promise<void> {
    if (run.length > 0) await appendTo(copy, run);
    appended += run.length;
    run = [];
    bytes = 0;
  }

  return {
    flush,
    appended: () => appended,
    async add(event: StoredEvent): Promise<void> {
      const [first] = run;
      const size = Buffer.byteLength(JSON.stringify(event.data));
      const isFull = run.length === APPENDED || bytes + size > APPENDED_BYTES;
      if (isFull || (first && first.stream !== event.stream)) await flush();
      run.push(event);
      bytes += size;
    },
  };
}

/** Removes what the records of retention name. */
async function removeRecorded(copy: EventStore): Promise<void> {
  for await (const { events } of readLog(copy, { from: null, stream: RETENTION }))
    for (const { revision, data } of retentionRecords(events))
      await copy.remove(streamsOf(data), { stream: RETENTION, revision });
}

async function treeOf(store: EventStore): Promise<Frontier> {
  const tree = createFrontier();
  const removed = createRemovedLeaves(store, null);
  for await (const { events } of readLog(store, { from: null }))
    for (const { leaf, removed: gone } of await removed.weave(tree.size(), events, hashOfLeaf))
      tree.append(leaf ? hashOfLeaf(leaf) : gone.hash);
  return tree;
}

async function* eventsOf(store: EventStore): AsyncGenerator<StoredEvent> {
  for await (const { events } of readLog(store, { from: null })) yield* events;
}

async function appendTo(copy: EventStore, events: StoredEvent[]): Promise<void> {
  const { stream, revision } = events[0] as StoredEvent;
  const expected = revision === 0 ? 'no_stream' : revision - 1;
  try {
    await copy.append(stream, expected, events.map(toNew));
  } catch (error) {
    if (!(error instanceof RevisionConflict)) throw error;
    throw new DomainError(
      'unavailable',
      `Another program writes to the copy: ${error.message}. Stop it and run the copy again`,
      {},
      { cause: error },
    );
  }
}

function toNew({ id, type, schema_version, data, metadata }: StoredEvent) {
  return { id, type, schema_version, data, metadata };
}

function otherLog(number: number): DomainError {
  return new DomainError(
    'validation_failed',
    `The other store has another log: its event ${number} is not that of this log. Name an empty ` +
      'store, or set another WAYBILL_STREAM_PREFIX in both',
  );
}
