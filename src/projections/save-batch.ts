import type { Sql } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import {
  type CheckpointMove,
  moveCheckpoint,
  moveCheckpointWith,
  type Writes,
} from './checkpoint.ts';
import type { Apply, Consumer, PreparedBatch } from './consumer.ts';
import type { RemovedLeaves } from './retention/removed-leaves.ts';

const UNIQUE_VIOLATION = '23505';

/**
 * Prepares a batch. `save` then saves it and moves the checkpoint, in one statement or one
 * transaction. It throws CheckpointMoved if the checkpoint is no longer at `from`, or of another
 * generation, or if the log has lost the events.
 */
export async function prepareBatch(
  sql: Sql,
  consumer: Consumer,
  events: StoredEvent[],
  removed: RemovedLeaves,
  step: Pick<CheckpointMove, 'generation' | 'from' | 'to' | 'isInLog'>,
): Promise<PreparedBatch & { save(): Promise<void> }> {
  const { name, table, version } = consumer;
  const move = { table, name, version, ...step, last: events.at(-1) ?? null };
  const prepared = await preparedBy(sql, consumer, events, removed);
  return {
    ...prepared,
    async save() {
      let saved = false;
      try {
        await prepared.ready;
        await saveBatch(sql, move, prepared);
        saved = true;
      } finally {
        prepared.afterSave?.(saved);
      }
    },
  };
}

async function saveBatch(
  sql: Sql,
  move: CheckpointMove,
  { writes, apply }: PreparedBatch,
): Promise<void> {
  if (writes && (await saveInOneStatement(sql, move, writes, apply !== undefined))) return;
  await sql.begin(async (tx) => {
    // The checkpoint moves first: its row lock blocks other consumers and a rebuild's take-over.
    // The first statement of `apply` is sent in the same round trip. The transaction commits only
    // if the checkpoint was at `from`.
    const moved = moveCheckpoint(tx, move);
    const applied = (apply as Apply)(tx);
    for (const done of await Promise.allSettled([moved, applied]))
      if (done.status === 'rejected') throw done.reason;
  });
}

async function preparedBy(
  sql: Sql,
  consumer: Consumer,
  events: StoredEvent[],
  removed: RemovedLeaves,
): Promise<PreparedBatch> {
  if (events.length === 0) return { writes: () => sql`` };
  if ('prepare' in consumer) return consumer.prepare(sql, events, removed);
  return {
    writes: (await consumer.inOneStatement?.(sql, events, removed)) ?? null,
    apply: (tx) => consumer.apply(tx, events, removed),
  };
}

/** Returns false if the batch needs its transaction, which `orElse` says it has. */
async function saveInOneStatement(
  sql: Sql,
  move: CheckpointMove,
  writes: Writes,
  orElse: boolean,
): Promise<boolean> {
  try {
    await moveCheckpointWith(sql, move, writes);
    return true;
  } catch (error) {
    // Rows that count as new exist if an event comes again. `apply` reads them first.
    if (orElse && (error as { code?: unknown }).code === UNIQUE_VIOLATION) return false;
    throw error;
  }
}
