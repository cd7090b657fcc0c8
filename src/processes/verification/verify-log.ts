/*
 * Verifies the whole log. It reads the log once, in order, and checks
 * - each stream by itself (chain.ts),
 * - each transfer against what the API shows of it (shown-transfers.ts),
 * - positions against the head, if the engine's positions have no gaps,
 * - that the triggers which protect an embedded log are there,
 * - the tree over all events against checkpoints that were kept elsewhere.
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
 * It holds no ended transfers and batches, which are nearly all of the log. `save` gets its
 * content, and a later run continues with it.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { unprotectedTable } from '../../adapters/postgres/migrate.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, RETENTION } from '../../domain/events/streams.ts';
import { createFrontier } from '../../domain/proof/frontier.ts';
import { type Hash, sameHash } from '../../domain/proof/hash.ts';
import { hashOfAnyLeaf as hashOf } from '../../domain/proof/leaf.ts';
import type { RemovedLeaf } from '../../domain/retention.ts';
import { readLog } from '../../projections/read-log.ts';
import { createRemovedLeaves } from '../../projections/retention/removed-leaves.ts';
import { isRecorded, leavingAfter } from '../../projections/retention/removed-transfers.ts';
import { countShown, shownTransfers } from '../../projections/transfers/shown.ts';
import { type CheckedStream, createChainVerifier } from './chain.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';
import { faultOfFirst } from './first-event.ts';
import { faultOfFollowed } from './followed-log.ts';
import { foreignFaults } from './foreign-faults.ts';
import { contradictions, type DamagedCheckpoint, type KeptCheckpoint } from './kept-checkpoints.ts';
import { positionFaults } from './position-faults.ts';
import { misnamed, partlyRemoved, returned, unknownToApi } from './retention-faults.ts';
import { compareShown, faultsBeyondLog } from './shown-transfers.ts';
import { type Agreed, signedDifferences } from './signed-differences.ts';

const BATCH = 5_000;
/** Open transfers that are compared with the read model in one query. */
const COMPARED = 1_000;

export interface VerificationDeps {
  /** One that keeps unreadable events. Another one ends the verification there, with LogChanged. */
  store: EventStore;
  sql: Sql;
  /** As the log says, or as the tables do if the log has lost its first event. */
  logId: string;
  /** False if the tables of the transfers are of another version: the API is then not compared. */
  comparesApi: boolean;
  /** False if the tables of the tree are of another version: its names are then not compared. */
  comparesTree: boolean;
}

/** All that a later run needs to continue. */
export interface VerificationState {
  position: bigint;
  events: number;
  /** How many events left the log by retention, before the position. */
  retained: number;
  streams: number;
  endedTransfers: number;
  faults: number;
  open: [string, CheckedStream][];
  subtrees: Hash[];
  agreed: Agreed | null;
  /** The size of the first checkpoint that does not fit. */
  differsAt: number | null;
}

export interface VerificationOptions {
  /** In order of their size. */
  checkpoints: KeptCheckpoint[];
  /** Kept files that were not compared. They are faults. */
  damaged?: DamagedCheckpoint[];
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
}

/** Verifies the log up to its current end. Throws what the stores throw. */
export async function verifyLog(
  deps: VerificationDeps,
  options: VerificationOptions,
): Promise<Verdict> {
  const { store, sql, logId } = deps;
  const { checkpoints, damaged = [], resume, report, onProgress, save } = options;
  const verifier = createChainVerifier(resume ?? undefined);
  let events = resume?.events ?? 0;
  let retained = resume?.retained ?? 0;
  const tree = createFrontier(checkpoints.length > 0 ? events + retained : 0, resume?.subtrees);
  let endedTransfers = resume?.endedTransfers ?? 0;
  let faults = resume?.faults ?? 0;
  let agreed = resume?.agreed ?? null;
  let differsAt = resume?.differsAt ?? null;
  let position = resume?.position ?? 0n;
  /** Of the last event of a transfer. */
  let lastOfTransfers = 0n;
  const kept = Map.groupBy(checkpoints, ({ size }) => size);
  const head = Number((await store.head()) ?? 0n);
  // Before the records are read: a removal follows its record.
  const removedBefore = (await store.countRemoved?.(position)) ?? 0;

  async function fault(found: Fault): Promise<void> {
    faults++;
    await report(found);
  }

  function compareRoots(at: bigint): void {
    const size = tree.size();
    const heads = kept.get(size);
    if (differsAt !== null || heads === undefined) return;
    const root = tree.root();
    if (heads.some((head) => sameHash(head.root, root)))
      agreed = { size, position: at, subtrees: tree.subtrees() };
    else differsAt = size;
  }

  let inRecords: Promise<ReadonlySet<string>> | null = null;
  function recorded(): Promise<ReadonlySet<string>> {
    inRecords ??= leavingAfter(store, 0n).then((ids) => new Set(ids));
    return inRecords;
  }

  async function compareWithApi(
    folded: ReadonlyMap<string, CheckedStream>,
    ends?: ReadonlyMap<string, bigint>,
  ): Promise<void> {
    if (!deps.comparesApi) return;
    for (const [stream, problem] of await compareShown(sql, folded, position, ends)) {
      // It may have left the log since it was read.
      const { revision, id } = folded.get(stream) as CheckedStream;
      if (await isRecorded(deps, parseStream(stream).id, id)) continue;
      await fault({ check: 'api', stream, revision, event_id: id, position: null, problem });
    }
  }

  if (resume === null) {
    for (const { source, problem } of damaged)
      await fault(nowhere('checkpoint', `${source}: ${problem}`));
    for (const found of contradictions(checkpoints, logId)) await fault(found);
  }
  const from = position === 0n ? null : position;
  const removed = createRemovedLeaves(store, from);
  let isFirst = from === null;

  async function checkFirst(event: StoredEvent | null): Promise<void> {
    if (!isFirst) return;
    isFirst = false;
    const found = faultOfFirst(event);
    if (found !== null) await fault(found);
  }

  for await (const batch of readLog(store, { from, batchSize: options.batchSize ?? BATCH })) {
    /** Transfers that have ended. */
    const ended = new Map<string, CheckedStream>();
    const ends = new Map<string, bigint>();
    /** First events of transfers. */
    const begun: StoredEvent[] = [];
    /** Transfers that are about to leave the log. */
    const leaving: string[] = [];
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
        if (leaf?.revision === 0) leaving.push(parseStream(leaf.stream).id);
      } else {
        events++;
        await checkFirst(leaf);
        const checked = verifier.check(leaf);
        for (const problem of checked.problems) await fault(faultIn(leaf, problem));
        if (leaf.stream === RETENTION) {
          for (const found of await partlyRemoved(store, leaf, verifier.open())) await fault(found);
          const unknown = deps.comparesApi ? await unknownToApi(sql, leaf) : null;
          if (unknown !== null) await fault(unknown);
        }
        if (leaf.revision === 0 && isTransfer(leaf.stream)) begun.push(leaf);
        if (isTransfer(leaf.stream)) lastOfTransfers = leaf.position;
        if (checked.ended && isTransfer(leaf.stream)) ended.set(leaf.stream, checked.stream);
        ends.set(leaf.stream, leaf.position);
      }
      if (checkpoints.length === 0) continue;
      tree.append(leaf === null ? named.hash : hashOf(leaf));
      compareRoots(position);
    }
    for (const found of await foreignFaults(deps, batch.events, recorded)) await fault(found);
    endedTransfers += ended.size;
    // The API may not know yet.
    if (leaving.length > 0) endedTransfers += (await shownTransfers(sql, leaving)).transfers.size;
    position = batch.position;
    if (deps.comparesTree) for (const found of await misnamed(sql, gone)) await fault(found);
    if (deps.comparesApi) for (const found of await returned(sql, begun)) await fault(found);
    await compareWithApi(ended, ends);
    onProgress(events, head === 0 ? 1 : Number(position) / head);
    await save(() => ({
      ...{ position, events, retained, endedTransfers, faults, agreed, differsAt },
      streams: verifier.streams(),
      open: [...verifier.open()],
      subtrees: checkpoints.length > 0 ? tree.subtrees() : [],
    }));
  }

  await checkFirst(null);

  async function countNamed(): Promise<number> {
    // If other events are missing, the last removed ones have their places beyond the end.
    const beyond = faults > 0 ? await removed.countFrom(events + retained) : 0;
    return retained - (resume?.retained ?? 0) + beyond;
  }
  for await (const found of positionFaults(store, removedBefore, countNamed)) await fault(found);
  const unprotected = store.engine === 'postgres' ? await unprotectedTable(sql) : null;
  if (unprotected !== null)
    await fault(
      nowhere(
        'triggers',
        `the table ${unprotected} lacks the trigger that protects it from changes`,
      ),
    );
  const open = [...verifier.open()].filter(([name]) => isTransfer(name));
  for (let i = 0; i < open.length; i += COMPARED)
    await compareWithApi(new Map(open.slice(i, i + COMPARED)));
  const { reached } = await shownTransfers(sql, []);
  if (deps.comparesApi) {
    const unfollowed = await faultOfFollowed(deps, logId);
    if (unfollowed !== null) await fault(unfollowed);
    const ids = open.map(([name]) => parseStream(name).id);
    const unknown = (await countShown(sql, position, ids)) - endedTransfers;
    for await (const found of faultsBeyondLog(store, reached, unknown)) await fault(found);
  }
  const largest = checkpoints.at(-1);
  if (largest && (differsAt !== null || largest.size > tree.size()))
    for await (const found of signedDifferences(deps, checkpoints, agreed, differsAt))
      await fault(found);
  return {
    events,
    retained,
    streams: verifier.streams(),
    faults,
    agreed: checkpoints.findLast(({ size }) => size === agreed?.size) ?? null,
    comparedApi: deps.comparesApi && reached >= lastOfTransfers,
  };
}

function isTransfer(stream: string): boolean {
  return parseStream(stream).kind === 'transfer';
}
