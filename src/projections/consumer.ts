import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { Locks } from '../adapters/postgres/locks.ts';
import type { StoredEvent } from '../domain/event.ts';
import { upcast } from '../domain/upcast.ts';
import {
  CheckpointMoved,
  type CheckpointTable,
  loadCheckpoint,
  moveCheckpoint,
  startCheckpoint,
  verifyCheckpoint,
  WrongLog,
} from './checkpoint.ts';

const BATCH = 1_000;
/** A position that moved with no event of ours is kept this seldom. */
const EMPTY_MOVES_MS = 1_000;
/** Events in a batch that tell of a busy moment: one transfer alone brings fewer. */
const BUSY = 5;
const RETRY_AFTER_MS = 5_000;

/** Something that follows the log and keeps its work and its checkpoint in one transaction. */
export interface Consumer {
  name: string;
  table: CheckpointTable;
  version: number;
  /** Starts of the names of the streams that it reads. */
  streams: string[];
  /** Pause after the batches of a busy moment, in milliseconds: what comes meanwhile makes one batch. None by default. */
  pauseMs?: number;
  apply(tx: Transaction, events: StoredEvent[]): Promise<void>;
}

export interface ConsumerDeps {
  store: EventStore;
  sql: Sql;
  locks: Locks;
  logId: string;
  logger: Logger;
}

export type ConsumerStatus =
  | { state: 'stand_by' }
  | { state: 'active'; position: bigint }
  /** It can't go on by itself; `error` says at which event and why. */
  | { state: 'failed'; error: string };

/**
 * Follows the log until the signal aborts: as the one active consumer of its name in the whole
 * installation, or standing by for it. What fails is reported and tried again every few seconds.
 * Throws WrongLog, which trying again does not mend.
 */
export async function runConsumer(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  report: (status: ConsumerStatus) => void,
): Promise<void> {
  let failed = false;
  while (!signal.aborted) {
    // One that has failed stays so in every report until it has got on, or another process has taken over.
    let held = failed ? await deps.locks.tryAcquire(lockOf(consumer.name)).catch(() => null) : null;
    if (!held) {
      report({ state: 'stand_by' });
      held = await deps.locks.acquire(lockOf(consumer.name), signal).catch((error: unknown) => {
        if (signal.aborted) return null;
        throw error;
      });
    }
    if (!held) return;
    failed = false;
    const stop = AbortSignal.any([signal, held.signal]);
    try {
      await consume(deps, consumer, stop, (position) => {
        report({ state: 'active', position });
        return false;
      });
    } catch (error) {
      if (error instanceof WrongLog) throw error;
      if (!(error instanceof CheckpointMoved) && !stop.aborted) {
        deps.logger.error({ err: error, consumer: consumer.name }, 'a consumer of the log has stopped; it tries again in a few seconds');
        report({ state: 'failed', error: (error as Error).message });
        failed = true;
        await sleep(RETRY_AFTER_MS, undefined, { signal }).catch(() => undefined);
      }
    } finally {
      await held.release();
    }
  }
}

/**
 * Brings a consumer to the end of the log where no process runs it; returns at once where one does. So
 * a command line, or an API process alone, can read its own writes.
 */
export async function catchUpIfIdle(deps: ConsumerDeps, consumer: Consumer): Promise<void> {
  const held = await deps.locks.tryAcquire(lockOf(consumer.name));
  if (!held) return;
  try {
    await consume(deps, consumer, held.signal, (_, caughtUp) => caughtUp);
  } catch (error) {
    if (!(error instanceof CheckpointMoved)) throw error;
  } finally {
    await held.release();
  }
}

/** True if a consumer has seen all of its events that the log holds now, whoever runs it. */
export async function isCaughtUp({ store, sql }: ConsumerDeps, { name, table, streams }: Consumer): Promise<boolean> {
  const checkpoint = await loadCheckpoint(sql, table, name);
  if (!checkpoint) return false;
  const done = new AbortController();
  try {
    const from = checkpoint.position === 0n ? null : checkpoint.position;
    for await (const { events, caughtUp } of store.subscribe({ from, signal: done.signal, batchSize: 1, streams })) {
      if (events.length > 0) return false;
      if (caughtUp) return true;
    }
    return false;
  } finally {
    done.abort();
  }
}

export function lockOf(consumer: string): string {
  return `consumer:${consumer}`;
}

/** Reads on from the checkpoint until the signal aborts or `enough`, told of every batch, says so. */
async function consume(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  enough: (position: bigint, caughtUp: boolean) => boolean,
): Promise<void> {
  const { name, table, version, streams, pauseMs } = consumer;
  await startCheckpoint(deps.sql, table, name, deps.logId, version);
  const checkpoint = await loadCheckpoint(deps.sql, table, name);
  if (!checkpoint) throw new CheckpointMoved(`${name} has no checkpoint`);
  await verifyCheckpoint(deps.store, name, checkpoint, deps.logId);
  let kept = checkpoint.position;
  let keptAt = Date.now();

  for await (const batch of deps.store.subscribe({ from: kept === 0n ? null : kept, signal, batchSize: BATCH, streams })) {
    const due = batch.events.length > 0 || Date.now() - keptAt > EMPTY_MOVES_MS;
    if (due && batch.position > kept) {
      await keep(deps, consumer, batch.events.map(upcast), kept, batch.position);
      kept = batch.position;
      keptAt = Date.now();
    }
    if (enough(batch.position, batch.caughtUp)) return;
    const busy = batch.caughtUp && batch.events.length >= BUSY;
    if (pauseMs !== undefined && busy) await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

async function keep(deps: ConsumerDeps, { name, table, apply }: Consumer, events: StoredEvent[], from: bigint, to: bigint): Promise<void> {
  await deps.sql.begin(async (tx) => {
    // First of all the checkpoint: it locks out whoever else moves it, and a rebuild that takes over. What `apply` asks
    // first is sent along and comes next; whether the checkpoint was where it was left is known before anything is committed.
    const moved = moveCheckpoint(tx, table, name, from, to, events.at(-1) ?? null);
    const applied = events.length > 0 ? apply(tx, events) : null;
    for (const done of await Promise.allSettled([moved, applied])) if (done.status === 'rejected') throw done.reason;
  });
}
