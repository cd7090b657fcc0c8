/*
 * Verifies the whole log. It reads the log once, in order, and checks
 * - each stream by itself (checked-streams.ts, chain.ts),
 * - each transfer against what the API shows of it (compared-api.ts),
 * - positions against the head, if the engine's positions have no gaps,
 * - the SQL functions and triggers of the database against those of this version,
 * - the keys that sign checkpoints, and the checkpoints in the log (logged-keys.ts),
 * - these keys against those that the API shows (shown-keys.ts),
 * - the tree over all events against the checkpoints in the log, and against those that were kept
 *   elsewhere (compared-tree.ts),
 * - that each sink still has the last checkpoint that it took (sink-faults.ts).
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
import type { EventBatch, EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { foreignCode } from '../../adapters/postgres/foreign-code.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import {
  aggregateIdOf,
  CHECKPOINTS,
  RETENTION,
  SIGNING_KEYS,
} from '../../domain/events/streams.ts';
import { hashOfAnyLeaf as hashOf } from '../../domain/proof/leaf.ts';
import type { CheckpointSigned } from '../../domain/proof/signed-checkpoint.ts';
import { endOfLog } from '../../projections/newest-of-log.ts';
import { type LogSlice, readLog } from '../../projections/read-log.ts';
import { createRemovedLeaves, type Woven } from '../../projections/retention/removed-leaves.ts';
import { leavingAfter } from '../../projections/retention/removed-transfers.ts';
import type { NamedSink } from '../proof/sinks.ts';
import { type CheckedStreamsState, createCheckedStreams } from './checked-streams.ts';
import { type ComparedApiDeps, type ComparedApiState, createComparedApi } from './compared-api.ts';
import { type ComparedTreeState, createComparedTree } from './compared-tree.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';
import { faultsOfFirst } from './first-event.ts';
import { lastFollowed } from './followed-log.ts';
import { foreignFaults } from './foreign-faults.ts';
import { contradictions, type DamagedCheckpoint, type KeptCheckpoint } from './kept-checkpoints.ts';
import { createLoggedKeys, type LoggedKey } from './logged-keys.ts';
import { positionFaults } from './position-faults.ts';
import { misnamed, recordFaults } from './retention-faults.ts';
import { faultsOfShownKeys } from './shown-keys.ts';
import { sinkFaults } from './sink-faults.ts';

const BATCH = 5_000;

export interface VerificationDeps extends ComparedApiDeps {
  /** One that keeps unreadable events. Another one ends the verification there, with LogChanged. */
  store: EventStore;
  sql: Sql;
  /** As the log says, or as the tables do if the log has lost its first event. */
  logId: string;
  /** False if the tables of the tree are of another version: names and keys are not compared. */
  comparesTree: boolean;
}

/** All that a later run needs to continue. */
export interface VerificationState
  extends CheckedStreamsState,
    ComparedApiState,
    ComparedTreeState {
  position: bigint;
  events: number;
  /** How many events left the log by retention, before the position. */
  retained: number;
  faults: number;
  keys: LoggedKey[];
}

/** The state before the first event. */
const START: VerificationState = {
  ...{ position: 0n, events: 0, retained: 0, streams: 0, faults: 0, keys: [] },
  ...{ open: [], hasForgotten: false },
  ...{ endedTransfers: 0, lastOfTransfers: 0n, skipped: false },
  ...{ subtrees: [], waiting: [], agreed: null, differsAt: null },
  ...{ agreedInLog: null, contradicts: null },
};

export interface VerificationOptions {
  /** In order of their size. */
  checkpoints: KeptCheckpoint[];
  /** Kept files that were not compared. They are faults. */
  damaged?: DamagedCheckpoint[];
  /** Public keys from which the keys of the log must follow. None: this is not checked. */
  keys?: readonly KeyObject[];
  /** The places of the settings that keep checkpoints. */
  sinks?: NamedSink[];
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
  /** How many events the last checkpoint in the log signs that fits. Null if none does. */
  signedInLog: number | null;
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
  const { store } = deps;
  const { resume, report, onProgress, save, batchSize = BATCH } = options;
  const start = resume ?? START;
  let { faults } = start;

  async function reportAll(found: Iterable<Fault> | AsyncIterable<Fault>): Promise<void> {
    for await (const fault of found) {
      faults++;
      await report(fault);
    }
  }

  const { until, holds } = await currentEnd(deps, start);
  const log = await createCheckedLog(deps, options, start);
  if (resume === null) await reportAll(faultsOfFiles(deps, options));
  for await (const batch of readLog(store, { from: placeOf(start), until, holds, batchSize })) {
    await reportAll(log.faultsOfBatch(batch));
    onProgress(log.events(), Number(batch.position) / Number(until));
    await save(() => ({ ...log.state(), faults }));
  }
  await reportAll(log.faultsAtEnd(() => faults > 0));
  return { ...log.verdict(), faults };
}

/**
 * Returns how far to read, and an event that the log has up to there. A former leader of an
 * EventStoreDB may answer without the newest events, which are not missing. A log that lacks them
 * for `staleMs` was cut short, and is read as it is.
 */
async function currentEnd(
  { store, sql, logId }: VerificationDeps,
  { position }: VerificationState,
): Promise<Pick<LogSlice, 'holds'> & { until: bigint | null }> {
  const followed = await lastFollowed({ store, sql }, logId);
  const known = followed !== null && followed.position > position ? followed : null;
  const until = await endOfLog(store, known?.position ?? position);
  const isRead = known !== null && known.position <= until;
  return { until: until === 0n ? null : until, holds: isRead ? known.id : undefined };
}

/** Returns the position after which a run reads; null before the first event. */
function placeOf({ position }: VerificationState): bigint | null {
  return position === 0n ? null : position;
}

/** Yields what is wrong with the kept files by themselves. */
function* faultsOfFiles(
  { logId }: VerificationDeps,
  { checkpoints, damaged = [] }: VerificationOptions,
): Generator<Fault> {
  for (const { source, problem } of damaged) yield nowhere('checkpoint', `${source}: ${problem}`);
  yield* contradictions(checkpoints, logId);
}

/** The log, as far as it was read. */
interface CheckedLog {
  /** Yields what is wrong with the next events of the log. */
  faultsOfBatch(batch: EventBatch): AsyncGenerator<Fault>;
  /** Yields what shows only in the whole log. `hasFaults`: if any were found so far. */
  faultsAtEnd(hasFaults: () => boolean): AsyncGenerator<Fault>;
  /** Returns how many events were checked. */
  events(): number;
  verdict(): Omit<Verdict, 'faults'>;
  state(): Omit<VerificationState, 'faults'>;
}

async function createCheckedLog(
  deps: VerificationDeps,
  { checkpoints, keys: given = [], sinks = [] }: VerificationOptions,
  start: VerificationState,
): Promise<CheckedLog> {
  const { store, sql, logId } = deps;
  const from = placeOf(start);
  let { position, events, retained } = start;
  const size = () => events + retained;
  const keys = createLoggedKeys(logId, given, start.keys);
  const streams = createCheckedStreams(store, start);
  const api = createComparedApi(deps, start);
  const tree = createComparedTree(logId, checkpoints, size(), start);
  const removed = createRemovedLeaves(store, from);
  let inRecords: Promise<ReadonlySet<string>> | null = null;
  // Before the records are read: a removal follows its record.
  const removedBefore = (await store.countRemoved?.(position)) ?? 0;

  function recorded(): Promise<ReadonlySet<string>> {
    inRecords ??= leavingAfter(store, 0n).then((ids) => new Set(ids));
    return inRecords;
  }

  async function* faultsOfEvent(event: StoredEvent): AsyncGenerator<Fault> {
    if (from === null && events === 0) yield* faultsOfFirst(event);
    events++;
    const checked = await streams.check(event);
    for (const problem of checked.problems) yield faultIn(event, problem);
    api.add(event, checked);
    if (event.stream === SIGNING_KEYS) yield* keys.add(event, size() - 1);
    if (event.stream === CHECKPOINTS) {
      const { isSigned, faults } = keys.checkCheckpoint(event);
      yield* faults;
      if (isSigned) tree.compareLogged(event.data as CheckpointSigned, event);
    }
    if (event.stream === RETENTION) yield* recordFaults(deps, event, streams.open());
  }

  /**
   * Skips a leaf that a record of retention names. If the log still has its event, the event is
   * about to leave, or an EventStoreDB has not freed its space. The event is as recorded, but other
   * events of its stream may be gone.
   */
  function skipRemoved(leaf: StoredEvent | null): void {
    retained++;
    if (leaf?.revision === 0) api.addLeaving(aggregateIdOf(leaf));
  }

  async function* faultsOfLeaves(leaves: Woven<StoredEvent>[]): AsyncGenerator<Fault> {
    for (const { leaf, removed } of leaves) {
      if (leaf !== null) position = leaf.position;
      if (removed === null) yield* faultsOfEvent(leaf);
      else skipRemoved(leaf);
      tree.append({ hash: leaf === null ? removed.hash : hashOf(leaf), position });
    }
  }

  async function countNamed(hasFaults: boolean): Promise<number> {
    // If other events are missing, the last removed ones have their places beyond the end.
    const beyond = hasFaults ? await removed.countFrom(size()) : 0;
    return retained - start.retained + beyond;
  }

  return {
    async *faultsOfBatch(batch) {
      const own = batch.events.filter(({ isForeign }) => !isForeign);
      const leaves = await removed.weave(size(), own, hashOf);
      yield* faultsOfLeaves(leaves);
      yield* await foreignFaults(deps, batch.events, recorded);
      position = batch.position;
      const named = leaves.flatMap(({ removed }) => removed ?? []);
      if (deps.comparesTree) yield* await misnamed(sql, named);
      yield* api.faultsOfBatch(position);
    },
    async *faultsAtEnd(hasFaults) {
      if (from === null && events === 0) yield* faultsOfFirst(null);
      yield* positionFaults(store, removedBefore, () => countNamed(hasFaults()));
      yield* faultsOfCode(deps);
      yield* sinkFaults(sql, sinks);
      yield* api.faultsAtEnd(streams.open(), position);
      yield* tree.faultsAtEnd(deps);
      yield* keys.faultsAtEnd(checkpoints);
      if (deps.comparesTree) yield* await faultsOfShownKeys(deps, logId);
    },
    events: () => events,
    verdict: () => ({
      ...{ events, retained, streams: streams.count(), keys: keys.state() },
      ...{ agreed: tree.agreedCheckpoint(), signedInLog: tree.signedInLog() },
      comparedApi: api.isComplete(),
    }),
    state: () => ({
      ...{ position, events, retained, keys: keys.state() },
      ...{ ...streams.state(), ...api.state(), ...tree.state() },
    }),
  };
}

/**
 * Yields the functions and triggers in the database that are not those of this version: a trigger
 * may protect nothing, and a function may append another event.
 */
async function* faultsOfCode({ store, sql }: VerificationDeps): AsyncGenerator<Fault> {
  const schemas = store.engine === 'postgres' ? ['log', 'work', 'read'] : ['work', 'read'];
  for (const problem of await foreignCode(sql, schemas)) yield nowhere('code', problem);
}
