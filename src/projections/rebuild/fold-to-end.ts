/*
 * Brings the tables of a rebuild to the end of the log.
 *
 * Three steps overlap: Postgres reads the next batch and writes one before, while the service folds.
 * So both cores of a small machine are busy. All writes go through one connection, which keeps their
 * order. One more is sent before Postgres asks for it. If a write fails, the checkpoint stays, and
 * the next write finds that it is not at its `from`. A projection without `createFill` folds and
 * writes each batch in one transaction.
 */
import type { Transaction } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import { upcast } from '../../domain/events/upcast.ts';
import { loadCheckpoint, moveCheckpoint, moveCheckpointWith } from '../checkpoint.ts';
import type { ConsumerDeps } from '../consumer.ts';
import type { Projection } from '../projection.ts';
import { readAhead } from '../read-ahead.ts';
import { inSteps } from '../retention/in-steps.ts';
import { createRemovedLeaves } from '../retention/removed-leaves.ts';

/**
 * Larger than the batch of a live consumer. A batch then holds more events of one transfer, so a
 * rebuild writes its row less often. A still larger one costs the garbage collector more than that.
 */
const BATCH = 2_000;
/** How long the take-over may block the live consumer while it reads the last events. */
const TAKE_OVER_WITHIN_MS = 20_000;

/**
 * Folds the log from the checkpoint to its current end, in transactions of its own or in `within`.
 * Calls `read` with the number of events and the position of each batch. Throws `unavailable` if
 * the signal aborts or the log does not answer.
 */
export async function foldToEnd(
  { sql, store }: Pick<ConsumerDeps, 'sql' | 'store'>,
  projection: Projection,
  { schema, checkpoint }: { schema: string; checkpoint: string },
  signal: AbortSignal,
  read: (events: number, position: bigint) => void,
  within?: Transaction,
): Promise<void> {
  const table = 'read.checkpoints';
  let from = (await loadCheckpoint(within ?? sql, table, checkpoint))?.position ?? 0n;
  // Postgres ends a transaction that idles while the log is silent. The wait must end before that.
  const limit = within ? [AbortSignal.timeout(TAKE_OVER_WITHIN_MS)] : [];
  const start = from === 0n ? null : from;
  const removed = createRemovedLeaves(store, start);
  const subscription = store.subscribe({
    from: start,
    signal: AbortSignal.any([signal, ...limit]),
    batchSize: BATCH,
    streams: projection.streams,
    only: projection.only,
  });
  const ahead = readAhead(subscription);
  const batches = projection.addsRemoved ? inSteps(ahead, removed) : ahead;
  // A fill relies on an empty table.
  const fill = start === null && !within ? projection.createFill?.(sql, schema) : undefined;
  const writer = fill ? await sql.reserve() : null;
  let before: Promise<unknown> = Promise.resolve();
  let writing = before;
  try {
    for await (const { events: given, position, caughtUp } of batches) {
      if (position > from) {
        // An EventStoreDB may repeat events once its connection is back. A fill can't ignore them.
        const stored = given.filter((event) => event.position > from);
        const events = projection.asStored ? stored : stored.map(upcast);
        const writes = await fill?.(events, removed);
        await before;
        const last = stored.at(-1) ?? null;
        const { version } = projection;
        const move = { table, name: checkpoint, version, from, to: position, last } as const;
        if (writer && writes) {
          before = writing;
          writing = bothOf(before, moveCheckpointWith(writer, move, writes));
          // It can fail before anything awaits it, which would crash the process.
          writing.catch(() => undefined);
        } else {
          await writing;
          const save = within ? null : await projection.prepare?.(sql, schema, events, removed);
          const apply = async (tx: Transaction) => {
            await moveCheckpoint(tx, move);
            await (save ? save(tx) : projection.apply(tx, schema, events, removed));
          };
          await (within ? apply(within) : sql.begin(apply));
        }
        from = position;
        read(events.length, from);
      }
      if (caughtUp) {
        await writing;
        return;
      }
    }
  } finally {
    // The caller drops the tables after an error.
    await writing.catch(() => undefined);
    writer?.release();
  }
  throw new DomainError(
    'unavailable',
    signal.aborted
      ? 'The connection to Postgres was lost in the middle of a rebuild; run it again'
      : 'The event log did not answer in the middle of a rebuild; run it again',
  );
}

/** Waits until both have ended. Throws the error of the first one that failed. */
async function bothOf(first: Promise<unknown>, second: Promise<unknown>): Promise<void> {
  for (const ended of await Promise.allSettled([first, second]))
    if (ended.status === 'rejected') throw ended.reason;
}
