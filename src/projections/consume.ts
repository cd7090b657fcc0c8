/*
 * Reads the log for a consumer, and saves its batches in their order. One is prepared while the one
 * before is saved. The caller has the lock of the consumer (run-consumer.ts).
 *
 * It relies on batches whose position says that everything before was delivered, and on
 * `moveCheckpoint`, which fails unless the checkpoint is where this consumer left it. The
 * generation of the checkpoint, loaded once, tells a take-over of a rebuild that leaves the
 * position. Rows that a batch read from the tables before are then not written to the new ones.
 */
import type { EventBatch } from '../adapters/event-store/port.ts';
import { upcast } from '../domain/events/upcast.ts';
import {
  CheckpointMoved,
  loadCheckpoint,
  NewerTables,
  resumePosition,
  startCheckpoint,
} from './checkpoint.ts';
import { type Consumer, type ConsumerDeps, sleepUntil } from './consumer.ts';
import { inSteps } from './retention/in-steps.ts';
import { createRemovedLeaves } from './retention/removed-leaves.ts';
import { prepareBatch } from './save-batch.ts';

const BATCH = 1_000;
/** How often to save a position that moved without an event for this consumer. */
const EMPTY_MOVES_MS = 1_000;
/** A batch of this many events means a busy moment: a single transfer causes fewer. */
const BUSY = 5;

/**
 * Reads from the checkpoint until the signal aborts or `afterBatch` says to stop. It calls
 * `afterBatch` when a batch is saved. Throws CheckpointMoved, NewerTables, WrongLog, and the errors
 * of the stores.
 */
export async function consume(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  afterBatch: (position: bigint, caughtUp: boolean) => 'continue' | 'stop',
): Promise<void> {
  const { name, table, version, streams, asStored, pauseMs, gatherMs } = consumer;
  const { pause: pauseFor = sleepUntil } = deps;
  await startCheckpoint(deps.sql, table, name, deps.logId, version);
  const checkpoint = await loadCheckpoint(deps.sql, table, name);
  if (!checkpoint) throw new CheckpointMoved(`${name} has no checkpoint`);
  if (checkpoint.version > version)
    throw new NewerTables(`a newer version of Waybill made the tables of ${name}`);
  const { generation } = checkpoint;
  let reached = await resumePosition(deps, table, name, checkpoint);
  let savedAt = performance.now();
  let savedTheEnd = false;
  const from = reached === 0n ? null : reached;
  const removed = createRemovedLeaves(deps.store, from, { looksOnce: true });
  /** Aborts when no batch is to follow: `afterBatch` said so, or a batch could not be saved. */
  const end = new AbortController();
  /** Saves the batches in their order. Rejects if one could not be saved. */
  let saving: Promise<void> = Promise.resolve();
  const inTurn = (step: () => Promise<void> | void) => {
    saving = saving.then(step);
    saving.catch(() => end.abort());
  };

  /** Prepares a batch, and has it saved. Returns the pause that follows; undefined for none. */
  async function take({ events: arrived, position: to, caughtUp }: EventBatch) {
    // Also at the first end: the log may be quiet from then on, and the position would look behind.
    const due =
      arrived.length > 0 ||
      performance.now() - savedAt > EMPTY_MOVES_MS ||
      (caughtUp && !savedTheEnd);
    let ahead = true;
    let gather = gatherMs;
    if (due && to > reached) {
      // An EventStoreDB may repeat events once its connection is back.
      const stored = arrived.filter(({ position }) => position > reached);
      const events = asStored ? stored : stored.map(upcast);
      const isInLog = deps.store.engine === 'postgres';
      const step = { generation, from: reached, to, isInLog };
      const prepared = await prepareBatch(deps.sql, consumer, events, removed, step);
      ahead = prepared.ahead ?? false;
      gather = prepared.gatherMs ?? gatherMs;
      const before = saving;
      before.catch(() => prepared.afterSave?.(false));
      inTurn(prepared.save);
      // One batch is prepared while another one is saved, and no more.
      await before;
      reached = to;
      savedAt = performance.now();
      savedTheEnd ||= caughtUp;
    }
    inTurn(() => {
      if (afterBatch(to, caughtUp) === 'stop') end.abort();
    });
    if (!ahead) await saving;
    if (!caughtUp || arrived.length === 0) return undefined;
    return arrived.length >= BUSY ? (pauseMs ?? gather) : gather;
  }

  try {
    const batches = deps.store.subscribe({
      from,
      signal: AbortSignal.any([signal, end.signal]),
      batchSize: consumer.batchSize ?? BATCH,
      streams,
    });
    for await (const batch of consumer.addsRemoved ? inSteps(batches, removed) : batches) {
      // The events must not stay in memory for the pause: the garbage collector would copy them.
      const waitMs = await take({ ...batch, events: batch.events.splice(0) });
      if (end.signal.aborted) break;
      if (waitMs !== undefined) await pauseFor(name, waitMs, signal);
    }
  } finally {
    await saving;
  }
}
