/*
 * Removes what the records of retention name. A record may outlive the process that wrote it, so
 * housekeeping looks for such records every minute.
 *
 * A consumer finds its place in the log by the last event that it has processed. So every consumer
 * that follows transfers also follows the records, and has to pass a record before its transfers
 * go: then its last event is the record or a later one. A process of an older version does not
 * follow the records. So each removal also asks which events are the last ones.
 *
 * Checkpoints are committed a moment before they are on disk, and an EventStoreDB removes streams
 * at once. So the checkpoints that were read are flushed to disk before the removal. Otherwise a
 * crash of Postgres could bring back a checkpoint whose last event is gone, and no service starts.
 *
 * The log alone says which records are open, because the read model may lack the latest ones. The
 * event that completes them is appended right after the last event that was read. If another run
 * has recorded transfers meanwhile, the append is rejected, and all of these records stay open.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { pagesOf } from '../../adapters/event-store/pages.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Cause } from '../../commands/handle.ts';
import { appendCompleted } from '../../commands/retention.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { RETENTION } from '../../domain/events/streams.ts';
import { newId } from '../../domain/ids.ts';
import { retentionRecords, streamsOf } from '../../domain/retention.ts';
import { loadCheckpoint } from '../../projections/checkpoint.ts';
import type { Consumer, ConsumerDeps } from '../../projections/consumer.ts';
import { PROJECTIONS } from '../../projections/read-models.ts';
import { firstOpenRecord, lastRecord } from '../../projections/retention/removed-transfers.ts';
import { catchUpIfIdle } from '../../projections/run-consumer.ts';
import { allConsumers } from '../consumers.ts';

/** The lock under which records are written and carried out. */
export const RETENTION_LOCK = 'log retention';
const ACTOR = 'system:retention';
const LOOK_MS = 100;
/** Events of the stream that are read at once. A record has 32 KiB. */
const READ_AT_ONCE = 20;

/** Carries out what an interrupted run left, unless a run is under way. */
export async function finishInterrupted(deps: ConsumerDeps): Promise<void> {
  // Tables of an older version may have no records, until their rebuild is done.
  const { name, version } = PROJECTIONS.transfers;
  const checkpoint = await loadCheckpoint(deps.sql, 'read.checkpoints', name);
  if (checkpoint?.version !== version) return;
  // No record is carried out before the read model has it.
  if ((await firstOpenRecord(deps.sql)) === null) return;
  const held = await deps.locks.tryAcquire(RETENTION_LOCK);
  if (!held) return;
  try {
    await finish(deps, { actor: ACTOR, correlationId: newId('req') }, 0);
  } finally {
    await held.release();
  }
}

/**
 * Removes all transfers from the log that open records name. Returns false if a consumer has not
 * passed the last record within `waitMs`: then everything stays. Also returns false if another run
 * records transfers meanwhile. The next call then tries again. Call it under the lock. Throws the
 * reason of `stop` after that aborts.
 */
export async function finish(
  deps: ConsumerDeps,
  cause: Cause,
  waitMs: number,
  stop?: AbortSignal,
): Promise<boolean> {
  const { store } = deps;
  const { revisions, last } = await openRecords(deps);
  if (last === null || revisions.length === 0) return true;
  if (!(await havePassed(deps, last.position, waitMs, stop))) return false;
  const needed = await lastStreams(deps);
  await flushCommits(deps.sql);
  for (const revision of revisions) {
    const [record] = retentionRecords(await store.read(RETENTION, revision, 1));
    const streams = record ? streamsOf(record.data) : [];
    if (streams.some((stream) => needed.has(stream))) return false;
    stop?.throwIfAborted();
    await store.remove(streams, { stream: RETENTION, revision });
  }
  return appendCompleted(store, last, cause);
}

/** Returns the revisions of the records that the log has open, and the last event of the stream. */
async function openRecords({ sql, store }: ConsumerDeps) {
  const from = (await firstOpenRecord(sql)) ?? (await lastRecord(sql)) ?? 0;
  let revisions: number[] = [];
  let last: StoredEvent | null = null;
  for await (const events of pagesOf(store, RETENTION, from, READ_AT_ONCE)) {
    const completed = events.findLastIndex(({ type }) => type === 'log.retention_completed');
    if (completed >= 0) revisions = [];
    revisions.push(...events.slice(completed + 1).map(({ revision }) => revision));
    last = events.at(-1) ?? last;
  }
  return { revisions, last };
}

/** Returns the consumers that read the records of retention. */
function followers(store: EventStore): Consumer[] {
  return allConsumers(store).filter(({ streams }) =>
    streams.some((prefix) => RETENTION.startsWith(prefix)),
  );
}

async function havePassed(
  deps: ConsumerDeps,
  position: bigint,
  waitMs: number,
  stop?: AbortSignal,
): Promise<boolean> {
  const until = performance.now() + waitMs;
  for (const consumer of followers(deps.store)) {
    await catchUpIfIdle(deps, consumer, stop);
    const { table, name } = consumer;
    while (((await loadCheckpoint(deps.sql, table, name))?.position ?? 0n) < position) {
      stop?.throwIfAborted();
      if (performance.now() >= until) return false;
      await sleep(LOOK_MS);
    }
  }
  return true;
}

/**
 * Returns when all commits that were visible are on disk, also those that did not wait for it. The
 * flush at a commit covers the whole write-ahead log before it. Postgres leaves it out if the
 * transaction itself wrote nothing, so this one writes a message that nothing reads.
 */
async function flushCommits(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local synchronous_commit = on`;
    await tx`select pg_logical_emit_message(true, 'waybill', '')`;
  });
}

/** Returns the streams of the last events that consumers have processed. */
async function lastStreams({ sql, store }: ConsumerDeps): Promise<Set<string>> {
  const checkpoints = await Promise.all(
    followers(store).map(({ table, name }) => loadCheckpoint(sql, table, name)),
  );
  return new Set(checkpoints.flatMap((checkpoint) => checkpoint?.event?.stream ?? []));
}
