/*
 * The process manager of batches. Its to-do list is the read model of batches: those that have not
 * ended. One process of the installation works on them at a time.
 *
 * - `creating`: it lists the folder (listing.ts), if the batch is one of a folder. The pages are
 *   recorded, and all that follows derives from them. It creates the transfers of the recorded
 *   pages, and opens the batch. A request with items does that itself, so the manager takes such a
 *   batch only after a few seconds: the process of the request may have crashed.
 * - `cancelled`: it creates what is missing as cancelled transfers, and cancels those that wait.
 * - `open` or `cancelled`: when the read model of transfers shows that all transfers of the batch
 *   have ended, it appends `batch.completed`. An ended transfer stays ended, so a read model that
 *   is behind only delays this.
 *
 * What can go wrong:
 * - The process ends, or loses the lock, at any point. The next one begins again with the recorded
 *   pages. The ids of transfers derive from the batch and the place of the item, so an append that
 *   is repeated changes nothing.
 * - The read model is far behind, because it is filled from the start of the log. The stream tells
 *   that the batch was opened or has ended. Then it creates nothing: transfers that left the log
 *   would begin again.
 * - A store is unavailable, or one batch fails. It is set aside for a moment, and the others
 *   continue.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../../adapters/postgres/listen.ts';
import {
  changeBatch,
  createTransfers,
  type KnownBatch,
  openBatch,
} from '../../commands/batches.ts';
import { changeTransfers } from '../../commands/bulk.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { type Batch, type BatchListed, batchDecider } from '../../domain/batches/batch.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { streamName } from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import {
  type CountedBatch,
  openBatches,
  transfersOfBatch,
} from '../../projections/batches/queries.ts';
import { CHECKPOINT_CHANNEL } from '../../projections/checkpoint.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { pagesOf } from '../../projections/read-log.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { inOneProcess } from '../in-one-process.ts';
import { listBatch } from './listing.ts';

/** Time between two looks, while there is news. */
const LOOK_MS = 500;
/** How long without news. A notification may be lost, and some batches only wait for a while. */
const QUIET_MS = 5_000;
/** How long the process manager leaves a batch of items to its request. */
const REQUEST_MS = 5_000;
const SET_ASIDE_MS = 5_000;
/** Events of a stream that are read at a time. */
const READ_AT_ONCE = 8;
/** Batches that are created at a time, without those that wait for room. */
const CREATED_AT_ONCE = 10;
/** How many of them may be of one account. A large folder takes its place for hours. */
const CREATED_OF_ACCOUNT = 8;
const FULL_MS = 1_000;
const CANCELLED_AT_ONCE = 1_000;
const ACTOR = 'system:batches';

export interface BatchManagerDeps extends ConsumerDeps {
  commands: CommandDeps;
}

/** Works on batches until the signal aborts, if no other process does. */
export async function runBatches(deps: BatchManagerDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  let open = 0;
  const isNews = (payload: string) =>
    payload.startsWith('batches:') || (open > 0 && payload.startsWith('transfers:'));
  const unlisten = listen(deps.sql, CHECKPOINT_CHANNEL, (payload) => {
    if (isNews(payload)) wakeUp.wake();
  });
  signal.addEventListener('abort', wakeUp.wake);
  // A catalog that is being filled lacks endpoints. Items without an endpoint are rejected for
  // good.
  await untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  await inOneProcess(deps.locks, 'batches', signal, async (held) => {
    const round = new AbortController();
    const stop = AbortSignal.any([held, round.signal]);
    const running: Running = new Map();
    try {
      while (!stop.aborted) {
        const batches = await openBatches(deps.sql);
        open = batches.length;
        for (const batch of batches) takeUp(deps, batch, running, wakeUp.wake, stop);
        await sleep(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
        await wakeUp.wait(QUIET_MS - LOOK_MS);
      }
    } catch (error) {
      deps.logger.error({ err: error }, 'batches could not be processed; retrying in 5 s');
      await sleep(SET_ASIDE_MS, undefined, { signal }).catch(() => undefined);
    } finally {
      // A folder can take hours. Its pages are recorded, so the next round continues.
      round.abort();
      await Promise.all([...running.values()].map(({ done }) => done));
    }
  });
  unlisten();
}

/** The work that is under way, by batch. */
type Running = Map<string, Work>;

interface Work {
  /** In which it began. */
  status: Batch['status'];
  accountId: string;
  /** True while it waits until its account has room for more transfers. */
  waits: boolean;
  end: AbortController;
  done: Promise<void>;
}

/** Starts the work that a batch needs now, unless it is under way. */
function takeUp(
  deps: BatchManagerDeps,
  batch: CountedBatch,
  running: Running,
  onChange: () => void,
  stopping: AbortSignal,
): void {
  const { batch_id, status, account_id: accountId } = batch;
  const step = stepOf(batch);
  const current = running.get(batch_id);
  // The rest is created as cancelled transfers, by the next step.
  if (status === 'cancelled' && current?.status === 'creating') current.end.abort();
  if (step === null || current) return;
  if (step === create && !hasPlace(running, accountId)) return;
  const end = new AbortController();
  const stop = AbortSignal.any([stopping, end.signal]);
  const work: Work = { status, accountId, waits: false, end, done: Promise.resolve() };
  running.set(batch_id, work);
  const onWait = (waits: boolean) => {
    const hasBegun = waits && !work.waits;
    work.waits = waits;
    if (hasBegun) onChange();
  };
  work.done = step(deps, batch, stop, onWait)
    .catch(async (error: unknown) => {
      if (stop.aborted) return;
      deps.logger.error(
        { err: error, batch_id },
        'a batch could not be processed; retrying in 5 s',
      );
      await sleep(SET_ASIDE_MS, undefined, { signal: stop }).catch(() => undefined);
    })
    .finally(() => {
      running.delete(batch_id);
      onChange();
    });
}

/** Returns true if an account may begin another batch. One that waits for room delays no other. */
function hasPlace(running: Running, accountId: string): boolean {
  const all = [...running.values()];
  const own = all.filter((work) => work.accountId === accountId);
  const busy = all.filter(({ waits }) => !waits);
  return own.length < CREATED_OF_ACCOUNT && busy.length < CREATED_AT_ONCE;
}

type Step = (
  deps: BatchManagerDeps,
  batch: CountedBatch,
  stop: AbortSignal,
  onWait: (waits: boolean) => void,
) => Promise<void>;

function stepOf(batch: CountedBatch): Step | null {
  const { status, items, rejected, counts } = batch;
  if (status === 'creating') return isOfRequest(batch) || isOfFlow(batch) ? null : create;
  if (hasEnded(batch)) return complete;
  if (status !== 'cancelled') return null;
  if (shownTransfers(batch) < items - rejected) return create;
  return counts.transfers.pending + counts.transfers.queued > 0 ? cancel : null;
}

/**
 * Returns true if the request that created the batch may still create its transfers. If the clocks
 * differ by more, the request counts as gone: nothing is lost if both create the transfers.
 */
function isOfRequest({ source, created_at }: Batch): boolean {
  return source.type === 'items' && Math.abs(Date.now() - Date.parse(created_at)) < REQUEST_MS;
}

/** Returns true if the process manager of flows still lists the batch. */
function isOfFlow({ source, listed }: Batch): boolean {
  return source.type === 'flow' && !listed;
}

function hasEnded({ items, rejected, counts: { transfers } }: CountedBatch): boolean {
  return transfers.completed + transfers.failed + transfers.cancelled === items - rejected;
}

/** Cancels transfers that wait. Those in progress continue, or wait again a moment later. */
async function cancel(
  { sql, commands }: BatchManagerDeps,
  batch: CountedBatch,
  stop: AbortSignal,
): Promise<void> {
  const request = { action: 'cancel' } as const;
  for (let more = true; more && !stop.aborted; ) {
    const waiting = ['pending', 'queued'] as const;
    const found = await transfersOfBatch(sql, batch.batch_id, waiting, CANCELLED_AT_ONCE);
    const reserved = { ...found, retries: [] };
    const { answer, position } = await changeTransfers(
      commands,
      batch.account_id,
      request,
      reserved,
      false,
      causeOf(batch),
    );
    await commands.waitFor('transfers', position);
    more = found.hasMore && answer.done > 0;
  }
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

/**
 * Lists what the batch has, creates the transfers of all pages, and opens the batch. Those of a
 * cancelled batch are created as cancelled ones, so every item has its transfer.
 */
async function create(
  { sql, commands }: BatchManagerDeps,
  batch: CountedBatch,
  stop: AbortSignal,
  onWait: (waits: boolean) => void,
): Promise<void> {
  let last: KnownBatch | null = null;
  for await (const { after } of readBatch(commands, batch.batch_id)) last = after;
  if (last?.state.status === 'creating' && !last.state.listed)
    last = await listBatch(commands, sql, last, causeOf(batch), stop);
  // Another step follows when the read model shows it.
  if (last?.state.status !== batch.status) return;
  // Every item had its transfer, which may have left the log since.
  if (last.state.opened_at !== null || last.state.ended_at !== null) return;
  let known: KnownBatch | null = null;
  for await (const { event, after } of readBatch(commands, batch.batch_id)) {
    known = after;
    if (event.type !== 'batch.listed') continue;
    const page = event.data as BatchListed;
    if (isShown(batch, page)) continue;
    await untilThereIsRoom(commands, batch, stop, onWait);
    if (stop.aborted) return;
    const { cancelled_at } = batch;
    const created = { ...after.state, cancelled_at };
    const { position } = await createTransfers(commands, created, [page], causeOf(batch, event));
    if (cancelled_at !== null) await commands.waitFor('transfers', position);
  }
  if (known === null || !known.state.listed) return;
  const { position } = await openBatch(commands, known, causeOf(batch));
  await commands.waitFor('batches', position);
}

/**
 * Returns true if the read model has shown all transfers of a page. The manager creates one page
 * after the other. A request with items creates them all at once, so its pages are never skipped.
 */
function isShown(batch: CountedBatch, page: BatchListed): boolean {
  if (batch.source.type === 'items') return false;
  return page.first + page.items.length <= shownTransfers(batch);
}

/** Returns how many transfers of the batch the read model shows, in any status. */
function shownTransfers({ counts: { transfers } }: CountedBatch): number {
  return Object.values(transfers).reduce((sum, number) => sum + number, 0);
}

/** Waits while the account has as many open transfers as it may have. */
async function untilThereIsRoom(
  { queueEstimate, maxOpenTransfers }: CommandDeps,
  { account_id, priority, source, status }: Batch,
  stop: AbortSignal,
  onWait: (waits: boolean) => void,
): Promise<void> {
  if (source.type === 'items' || status === 'cancelled') return;
  while (!stop.aborted) {
    const { openTransfers } = await queueEstimate(account_id, priority);
    if (openTransfers < maxOpenTransfers) return onWait(false);
    onWait(true);
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
  for await (const events of pagesOf(store, stream, 0, READ_AT_ONCE))
    for (const event of events.map(upcast)) {
      state = batchDecider.evolve(state, event);
      const { revision, position } = event;
      if (state.status !== 'none')
        yield { event, after: { state, revision, position, last: event } };
    }
}

function causeOf({ batch_id }: Batch, because: StoredEvent | null = null): Cause {
  return {
    actor: because?.metadata.actor ?? ACTOR,
    correlationId: because?.metadata.correlation_id ?? batch_id,
    causationId: because?.id ?? null,
  };
}
