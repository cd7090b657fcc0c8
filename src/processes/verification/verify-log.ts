/*
 * Verifies the whole log. It reads the log once, in order, and checks
 * - each stream by itself (chain.ts),
 * - each transfer against what the API shows of it (compared-api.ts),
 * - positions against the head, if the engine's positions have no gaps,
 * - that the triggers which protect an embedded log are there,
 * - the keys that sign checkpoints, and the checkpoints in the log (logged-keys.ts),
 * - the tree over all events against checkpoints that were kept elsewhere (compared-tree.ts).
 *
 * Events that left the log by retention are in the tree, not in the log: their records have the
 * hashes of their leaves. An event that is missing without a record counts as removed. A record
 * that the log contradicts is a fault (retention-faults.ts).
 *
 * If a checkpoint does not fit, it names what differs (signed-differences.ts).
 *
 * An event that cannot be read is a fault of its stream, and the verification goes on.
 *
 * Memory holds the last state of each stream, one batch of events, and the right edge of the tree.
 * It holds no ended transfers and batches, and of accesses only the last streams: these are nearly
 * all of the log. `save` gets its content, and a later run continues with it. That run reports
 * again what was found since.
 */
import type { KeyObject } from 'node:crypto';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { unprotectedTable } from '../../adapters/postgres/migrate.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import {
  aggregateIdOf,
  CHECKPOINTS,
  RETENTION,
  SIGNING_KEYS,
} from '../../domain/events/streams.ts';
import { hashOfAnyLeaf as hashOf } from '../../domain/proof/leaf.ts';
import type { RemovedLeaf } from '../../domain/retention.ts';
import { readLog } from '../../projections/read-log.ts';
import { createRemovedLeaves } from '../../projections/retention/removed-leaves.ts';
import { leavingAfter } from '../../projections/retention/removed-transfers.ts';
import { type ChainState, createChainVerifier } from './chain.ts';
import { type ComparedApiDeps, type ComparedApiState, createComparedApi } from './compared-api.ts';
import { type ComparedTreeState, createComparedTree } from './compared-tree.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';
import { faultOfFirst } from './first-event.ts';
import { foreignFaults } from './foreign-faults.ts';
import { contradictions, type DamagedCheckpoint, type KeptCheckpoint } from './kept-checkpoints.ts';
import { createLoggedKeys, type LoggedKey } from './logged-keys.ts';
import { positionFaults } from './position-faults.ts';
import { misnamed, partlyRemoved, unknownToApi } from './retention-faults.ts';

const BATCH = 5_000;

export interface VerificationDeps extends ComparedApiDeps {
  /** One that keeps unreadable events. Another one ends the verification there, with LogChanged. */
  store: EventStore;
  sql: Sql;
  /** As the log says, or as the tables do if the log has lost its first event. */
  logId: string;
  /** False if the tables of the tree are of another version: its names are then not compared. */
  comparesTree: boolean;
}

/** All that a later run needs to continue. */
export interface VerificationState extends ChainState, ComparedApiState, ComparedTreeState {
  position: bigint;
  events: number;
  /** How many events left the log by retention, before the position. */
  retained: number;
  streams: number;
  faults: number;
  keys: LoggedKey[];
}

/** The state before the first event. */
const START: VerificationState = {
  ...{ position: 0n, events: 0, retained: 0, streams: 0, faults: 0, keys: [] },
  ...{ open: [], hasForgotten: false },
  ...{ endedTransfers: 0, lastOfTransfers: 0n, skipped: false },
  ...{ subtrees: [], agreed: null, differsAt: null },
};

export interface VerificationOptions {
  /** In order of their size. */
  checkpoints: KeptCheckpoint[];
  /** Kept files that were not compared. They are faults. */
  damaged?: DamagedCheckpoint[];
  /** Public keys from which the keys of the log must follow. None: this is not checked. */
  keys?: readonly KeyObject[];
  /** Null begins with the first event. */
  resume: VerificationState | null;
  report(fault: Fault): Promise<void>;
  onProgress(events: number, share: number): void;
  /** Is called after each batch. `state` collects what a later run needs: it takes a moment. */
  save(state: () => VerificationState): Promise<void>;
  batchSize?: number;
}

export interface Verdict {
  events: number;
  /** How many further events left the log by retention. */
  retained: number;
  streams: number;
  faults: number;
  /** The newest checkpoint with which the log agrees. */
  agreed: KeptCheckpoint | null;
  /** True if all transfers were compared with what the API shows. */
  comparedApi: boolean;
  /** The keys that the log names. */
  keys: LoggedKey[];
}

/** Verifies the log up to its current end. Throws what the stores throw. */
export async function verifyLog(
  deps: VerificationDeps,
  options: VerificationOptions,
): Promise<Verdict> {
  const { store, sql, logId } = deps;
  const { checkpoints, damaged = [], keys: given = [] } = options;
  const { resume, report, onProgress, save } = options;
  const start = resume ?? START;
  let { position, events, retained, streams, faults } = start;
  const from = position === 0n ? null : position;
  const keys = createLoggedKeys(logId, given, start.keys);
  const verifier = createChainVerifier(start);
  const api = createComparedApi(deps, start);
  const hasTree = checkpoints.length > 0;
  const tree = createComparedTree(checkpoints, hasTree ? events + retained : 0, start);
  const removed = createRemovedLeaves(store, from);
  const head = Number((await store.head()) ?? 0n);
  // Before the records are read: a removal follows its record.
  const removedBefore = (await store.countRemoved?.(position)) ?? 0;

  async function fault(found: Fault): Promise<void> {
    faults++;
    await report(found);
  }

  async function allOf(found: Iterable<Fault> | AsyncIterable<Fault>): Promise<void> {
    for await (const one of found) await fault(one);
  }

  let inRecords: Promise<ReadonlySet<string>> | null = null;
  function recorded(): Promise<ReadonlySet<string>> {
    inRecords ??= leavingAfter(store, 0n).then((ids) => new Set(ids));
    return inRecords;
  }

  let isFirst = from === null;
  async function checkFirst(event: StoredEvent | null): Promise<void> {
    if (!isFirst) return;
    isFirst = false;
    const found = faultOfFirst(event);
    if (found !== null) await fault(found);
  }

  async function check(event: StoredEvent): Promise<void> {
    events++;
    await checkFirst(event);
    if (verifier.mayBeForgotten(event.stream)) {
      const last = await lastBefore(store, event);
      if (last !== null) verifier.recall(last);
    }
    const checked = verifier.check(event);
    // The store is only asked about a faulty log: the first event of a stream has the revision 0.
    const isNew = async () => event.revision === 0 || (await lastBefore(store, event)) === null;
    if (checked.opened && (await isNew())) streams++;
    for (const problem of checked.problems) await fault(faultIn(event, problem));
    api.add(event, checked);
    if (event.stream === SIGNING_KEYS) await allOf(keys.add(event, events + retained - 1));
    if (event.stream === CHECKPOINTS) await allOf(keys.checkpointFaults(event));
    if (event.stream !== RETENTION) return;
    await allOf(await partlyRemoved(store, event, verifier.open()));
    const unknown = deps.comparesApi ? await unknownToApi(sql, event) : null;
    if (unknown !== null) await fault(unknown);
  }

  if (resume === null) {
    await allOf(
      damaged.map(({ source, problem }) => nowhere('checkpoint', `${source}: ${problem}`)),
    );
    await allOf(contradictions(checkpoints, logId));
  }
  for await (const batch of readLog(store, { from, batchSize: options.batchSize ?? BATCH })) {
    const gone: RemovedLeaf[] = [];
    for (const { leaf, removed: named } of await removed.weave(
      events + retained,
      batch.events.filter(({ isForeign }) => !isForeign),
      hashOf,
    )) {
      if (leaf !== null) position = leaf.position;
      // It is about to leave the log, or an EventStoreDB has not freed its space: it is as
      // recorded, but other events of its stream may be gone.
      if (named !== null) {
        retained++;
        gone.push(named);
        if (leaf?.revision === 0) api.addLeaving(aggregateIdOf(leaf));
      } else await check(leaf);
      if (hasTree) tree.append(leaf === null ? named.hash : hashOf(leaf), position);
    }
    await allOf(await foreignFaults(deps, batch.events, recorded));
    position = batch.position;
    if (deps.comparesTree) await allOf(await misnamed(sql, gone));
    await allOf(api.faultsOfBatch(position));
    onProgress(events, head === 0 ? 1 : Number(position) / head);
    await save(() => ({
      ...{ position, events, retained, streams, faults, ...api.state(), ...tree.state() },
      ...{ ...verifier.state(), keys: keys.state() },
    }));
  }

  await checkFirst(null);

  async function countNamed(): Promise<number> {
    // If other events are missing, the last removed ones have their places beyond the end.
    const beyond = faults > 0 ? await removed.countFrom(events + retained) : 0;
    return retained - start.retained + beyond;
  }
  await allOf(positionFaults(store, removedBefore, countNamed));
  const unprotected = store.engine === 'postgres' ? await unprotectedTable(sql) : null;
  if (unprotected !== null)
    await fault(
      nowhere(
        'triggers',
        `the table ${unprotected} lacks a trigger that protects it from changes, or has it disabled`,
      ),
    );
  await allOf(api.faultsAtEnd(verifier.open(), position));
  const comparedApi = api.isComplete();
  await allOf(tree.faultsAtEnd(deps));
  await allOf(keys.faultsAtEnd(checkpoints));
  return {
    ...{ events, retained, streams, faults, comparedApi, keys: keys.state() },
    agreed: tree.agreedCheckpoint(),
  };
}

/** Returns the event of a stream that the log has last before this one; null if there is none. */
async function lastBefore(store: EventStore, event: StoredEvent): Promise<StoredEvent | null> {
  let last: StoredEvent | null = null;
  for (const other of await store.read(event.stream)) {
    if (other.isForeign || other.position >= event.position) continue;
    if (last === null || other.position > last.position) last = other;
  }
  return last;
}
