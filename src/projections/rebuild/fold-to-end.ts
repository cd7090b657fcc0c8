/*
 * Brings the tables of a rebuild to the end of the log.
 *
 * Three steps overlap: Postgres reads the next batch and writes one before, while the service folds.
 * So both cores of a small machine are busy. All writes go through one connection, which keeps their
 * order. One more is sent before Postgres asks for it. If a write fails, the checkpoint stays, and
 * the next write finds that it is not at its `from`. A projection without `createFill` folds and
 * writes each batch in one transaction.
 */
import type { Sql, Transaction } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { upcast } from '../../domain/events/upcast.ts';
import {
  type CheckpointMove,
  loadCheckpoint,
  moveCheckpoint,
  moveCheckpointWith,
} from '../checkpoint.ts';
import type { ConsumerDeps } from '../consumer.ts';
import type { Fill, Projection } from '../projection.ts';
import { readAhead } from '../read-ahead.ts';
import { inSteps } from '../retention/in-steps.ts';
import { createRemovedLeaves, type RemovedLeaves } from '../retention/removed-leaves.ts';

/**
 * Larger than the batch of a live consumer. A batch then holds more events of one transfer, so a
 * rebuild writes its row less often. A still larger one costs the garbage collector more than that.
 */
const BATCH = 2_000;
/** How long the take-over may block the live consumer while it reads the last events. */
const TAKE_OVER_WITHIN_MS = 20_000;

/** A batch of the log, and the move of the checkpoint with it. */
interface Batch {
  events: StoredEvent[];
  move: CheckpointMove;
}

/** Writes the batches of a rebuild in their order. */
interface Writer {
  /** Writes a batch, or begins to. Rejects if this batch or an earlier one cannot be written. */
  write(batch: Batch): Promise<void>;
  /** Resolves when all batches are written. */
  written(): Promise<unknown>;
  /** Ends the writer, also after an error. Never rejects. */
  close(): Promise<void>;
}

/** The tables that a rebuild fills. */
interface Target {
  projection: Projection;
  schema: string;
  removed: RemovedLeaves;
}

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
  const start = from === 0n ? null : from;
  // Postgres ends a transaction that idles while the log is silent. The wait must end before that.
  const limit = within ? [AbortSignal.timeout(TAKE_OVER_WITHIN_MS)] : [];
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
  const writer = await createWriter(sql, { projection, schema, removed }, start === null, within);
  try {
    for await (const { events: given, position, caughtUp } of batches) {
      if (position > from) {
        // An EventStoreDB may repeat events once its connection is back. A fill can't ignore them.
        const stored = given.filter((event) => event.position > from);
        const events = projection.asStored ? stored : stored.map(upcast);
        const last = stored.at(-1) ?? null;
        const { version } = projection;
        const move = { table, name: checkpoint, version, from, to: position, last } as const;
        await writer.write({ events, move });
        from = position;
        read(events.length, from);
      }
      if (caughtUp) {
        await writer.written();
        return;
      }
    }
  } finally {
    await writer.close();
  }
  throw new DomainError(
    'unavailable',
    signal.aborted
      ? 'The connection to Postgres was lost in the middle of a rebuild; run it again'
      : 'The event log did not answer in the middle of a rebuild; run it again',
  );
}

/** Creates the writer for tables that are empty, or that batches have filled before. */
async function createWriter(
  sql: Sql,
  target: Target,
  isEmpty: boolean,
  within?: Transaction,
): Promise<Writer> {
  const byTransactions = writeByTransactions(sql, target, within);
  // A fill relies on an empty table.
  if (!isEmpty || within) return byTransactions;
  const fill = target.projection.createFill?.(sql, target.schema);
  return fill ? writeAhead(await sql.reserve(), target, fill, byTransactions) : byTransactions;
}

/** Folds and writes each batch in one transaction: of its own, or `within`. */
function writeByTransactions(
  sql: Sql,
  { projection, schema, removed }: Target,
  within?: Transaction,
): Writer {
  return {
    async write({ events, move }) {
      const save = within ? null : await projection.prepare?.(sql, schema, events, removed);
      const apply = async (tx: Transaction) => {
        await moveCheckpoint(tx, move);
        await (save ? save(tx) : projection.apply(tx, schema, events, removed));
      };
      await (within ? apply(within) : sql.begin(apply));
    },
    written: async () => undefined,
    close: async () => undefined,
  };
}

/**
 * Folds a batch while Postgres writes the one before, and sends one more. A batch that the fill
 * leaves out is written `otherwise`, when those before it are written.
 */
function writeAhead(
  connection: Awaited<ReturnType<Sql['reserve']>>,
  { removed }: Target,
  fill: Fill,
  otherwise: Writer,
): Writer {
  let before: Promise<unknown> = Promise.resolve();
  let last = before;
  return {
    async write(batch) {
      const writes = await fill(batch.events, removed);
      await before;
      if (writes === null) {
        await last;
        return otherwise.write(batch);
      }
      before = last;
      last = bothOf(before, moveCheckpointWith(connection, batch.move, writes));
      // It can fail before anything awaits it, which would crash the process.
      last.catch(() => undefined);
    },
    written: () => last,
    async close() {
      // The caller drops the tables after an error.
      await last.catch(() => undefined);
      connection.release();
    },
  };
}

/** Waits until both have ended. Throws the error of the first one that failed. */
async function bothOf(first: Promise<unknown>, second: Promise<unknown>): Promise<void> {
  for (const ended of await Promise.allSettled([first, second]))
    if (ended.status === 'rejected') throw ended.reason;
}
