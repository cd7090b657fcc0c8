/*
 * The process manager of batches. Its to-do list is the read model of batches: those that have not
 * ended. One process of the installation works on them at a time.
 *
 * - `creating`: it lists the folder (listing.ts), if the batch is one of a folder. The pages are
 *   recorded, and all that follows derives from them. It creates the transfers of the recorded pages, and opens the batch. A request with
 *   items does that itself, so the manager takes such a batch only after a few seconds: the process
 *   of the request may have crashed.
 * - `open` or `cancelled`: when the read model of transfers shows that all transfers of the batch
 *   have ended, it appends `batch.completed`. An ended transfer stays ended, so a read model that is
 *   behind only delays this.
 *
 * What can go wrong:
 * - The process ends, or loses the lock, at any point. The next one begins again with the recorded
 *   pages. The ids of transfers derive from the batch and the place of the item, so an append that
 *   is repeated changes nothing.
 * - A store is unavailable, or one batch fails. It is set aside for a moment, and the others go on.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import {
  changeBatch,
  createTransfers,
  type KnownBatch,
  openBatch,
} from '../../commands/batches.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { type Batch, type BatchListed, batchDecider } from '../../domain/batch.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { streamName } from '../../domain/streams.ts';
import { upcast } from '../../domain/upcast.ts';
import { type CountedBatch, openBatches } from '../../projections/batch-queries.ts';
import { CHECKPOINT_CHANNEL } from '../../projections/checkpoint.ts';
import { listFolder } from './listing.ts';

const LOOK_MS = 500;
/** How long the process manager leaves a batch of items to its request. */
const REQUEST_MS = 5_000;
const SET_ASIDE_MS = 5_000;
/** Events of a stream that are read at a time. */
const READ_AT_ONCE = 8;
/** Batches that are created at a time. */
const CREATED_AT_ONCE = 8;
const FULL_MS = 1_000;
const ACTOR = 'system:batches';

export interface BatchManagerDeps {
  sql: Sql;
  locks: Locks;
  commands: CommandDeps;
  logger: Logger;
}

/** Works on batches until the signal aborts, if no other process does. */
export async function runBatches(deps: BatchManagerDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, CHECKPOINT_CHANNEL, (payload) => {
    if (payload.startsWith('batches:')) wakeUp.wake();
  });
  signal.addEventListener('abort', wakeUp.wake);
  while (!signal.aborted) {
    const held = await deps.locks.acquire('batches', signal).catch(() => null);
    if (!held) break;
    const stop = AbortSignal.any([signal, held.signal]);
    const running = new Map<string, Promise<void>>();
    try {
      while (!stop.aborted) {
        for (const batch of await openBatches(deps.sql)) takeUp(deps, batch, running, stop);
        await wakeUp.wait(LOOK_MS);
      }
    } catch (error) {
      deps.logger.error({ err: error }, 'the work on batches failed; it tries again');
      await wakeUp.wait(LOOK_MS);
    } finally {
      await Promise.all(running.values());
      await held.release();
    }
  }
  unlisten();
}

/** Starts the work that a batch needs now, unless it is under way. */
function takeUp(
  deps: BatchManagerDeps,
  batch: CountedBatch,
  running: Map<string, Promise<void>>,
  stop: AbortSignal,
): void {
  const { batch_id } = batch;
  const step = stepOf(batch);
  if (step === null || running.has(batch_id)) return;
  if (step === create && running.size >= CREATED_AT_ONCE) return;
  const work = step(deps, batch, stop)
    .catch(async (error: unknown) => {
      if (stop.aborted) return;
      deps.logger.error({ err: error, batch_id }, 'the work on a batch failed; it tries again');
      await sleep(SET_ASIDE_MS, undefined, { signal: stop }).catch(() => undefined);
    })
    .finally(() => running.delete(batch_id));
  running.set(batch_id, work);
}

type Step = (deps: BatchManagerDeps, batch: CountedBatch, stop: AbortSignal) => Promise<void>;

function stepOf(batch: CountedBatch): Step | null {
  if (batch.status === 'creating') return isOfRequest(batch) ? null : create;
  return hasEnded(batch) ? complete : null;
}

/** Returns true if the request that created the batch may still create its transfers. */
function isOfRequest({ source, created_at }: Batch): boolean {
  return source.type === 'items' && Date.parse(created_at) > Date.now() - REQUEST_MS;
}

function hasEnded({ items, rejected, counts: { transfers } }: CountedBatch): boolean {
  return transfers.completed + transfers.failed + transfers.cancelled === items - rejected;
}

async function complete({ commands }: BatchManagerDeps, batch: CountedBatch): Promise<void> {
  const { batch_id, counts } = batch;
  const { completed, failed, cancelled } = counts.transfers;
  const now = new Date().toISOString();
  const ended = { completed, failed, cancelled };
  const command = { type: 'complete', ended, bytes: counts.completedBytes, now } as const;
  const { position } = await changeBatch(commands, batch_id, command, causeOf(batch));
  await commands.waitFor('batches', position);
}

/** Lists the folder, creates the transfers of all pages, and opens the batch. */
async function create(
  { commands }: BatchManagerDeps,
  batch: CountedBatch,
  stop: AbortSignal,
): Promise<void> {
  if (batch.source.type === 'folder' && !batch.listed) {
    let last: KnownBatch | null = null;
    for await (const { after } of readBatch(commands, batch.batch_id)) last = after;
    if (last && !last.state.listed)
      await listFolder(commands, last, batch.source, causeOf(batch), stop);
  }
  let known: KnownBatch | null = null;
  for await (const { event, after } of readBatch(commands, batch.batch_id)) {
    known = after;
    if (event.type !== 'batch.listed') continue;
    const page = event.data as BatchListed;
    if (isShown(batch, page)) continue;
    await untilThereIsRoom(commands, batch, stop);
    if (stop.aborted) return;
    await createTransfers(commands, after.state, [page], causeOf(batch, event));
  }
  if (known === null || !known.state.listed) return;
  const { position } = await openBatch(commands, known, causeOf(batch));
  await commands.waitFor('batches', position);
}

/**
 * Returns true if the read model has shown all transfers of a page. The manager creates one page
 * after the other. A request with items creates them all at once, so its pages are never skipped.
 */
function isShown({ source, counts: { transfers } }: CountedBatch, page: BatchListed): boolean {
  if (source.type === 'items') return false;
  const shown = Object.values(transfers).reduce((sum, number) => sum + number, 0);
  return page.first + page.items.length <= shown;
}

/** Waits while the account has as many open transfers as it may have. */
async function untilThereIsRoom(
  { queueEstimate, maxOpenTransfers }: CommandDeps,
  { account_id, priority, source }: Batch,
  stop: AbortSignal,
): Promise<void> {
  if (source.type === 'items') return;
  while (!stop.aborted) {
    const { openTransfers } = await queueEstimate(account_id, priority);
    if (openTransfers < maxOpenTransfers) return;
    await sleep(FULL_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}

/** Yields the events of a batch with the state after each. Holds few pages at a time. */
async function* readBatch(
  { store }: Pick<CommandDeps, 'store'>,
  batchId: string,
): AsyncGenerator<{ event: StoredEvent; after: KnownBatch }> {
  const stream = streamName('batch', batchId);
  let state = batchDecider.initialState();
  for (let next = 0; ; next += READ_AT_ONCE) {
    const events = await store.read(stream, next, READ_AT_ONCE);
    for (const event of events.map(upcast)) {
      state = batchDecider.evolve(state, event);
      const { revision, position } = event;
      if (state.status !== 'none')
        yield { event, after: { state, revision, position, last: event } };
    }
    if (events.length < READ_AT_ONCE) return;
  }
}

function causeOf({ batch_id }: Batch, because: StoredEvent | null = null): Cause {
  return {
    actor: because?.metadata.actor ?? ACTOR,
    correlationId: because?.metadata.correlation_id ?? batch_id,
    causationId: because?.id ?? null,
  };
}
