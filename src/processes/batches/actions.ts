/*
 * What the process manager does for a batch: create its transfers, cancel them, complete the batch.
 */
import { pagesOf } from '../../adapters/event-store/pages.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import {
  changeBatch,
  createTransfers,
  type KnownBatch,
  openBatch,
} from '../../commands/batches.ts';
import { cancelTransfers } from '../../commands/bulk.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { pause } from '../../concurrency/pause.ts';
import { type Batch, type BatchListed, batchDecider } from '../../domain/batches/batch.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { streamName } from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import { type CountedBatch, transfersOfBatch } from '../../projections/batches/queries.ts';
import { listBatch } from './listing.ts';

/** How long the process manager leaves a batch of items to its request. */
const REQUEST_MS = 5_000;
/** Events of a stream that are read at a time. */
const READ_AT_ONCE = 8;
/** Time between two looks for room in a full account. */
const FULL_MS = 1_000;
const CANCELLED_AT_ONCE = 1_000;
const ACTOR = 'system:batches';

interface ActionDeps {
  sql: Sql;
  commands: CommandDeps;
}

/** Does what a batch needs next. `onWait` gets true while it waits for room in its account. */
export type Action = (
  deps: ActionDeps,
  batch: CountedBatch,
  stop: AbortSignal,
  onWait: (waits: boolean) => void,
) => Promise<void>;

/** Returns what a batch needs now. Null for nothing. */
export function actionFor(batch: CountedBatch): Action | null {
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
  { sql, commands }: ActionDeps,
  batch: CountedBatch,
  stop: AbortSignal,
): Promise<void> {
  for (let more = true; more && !stop.aborted; ) {
    const waiting = ['pending', 'queued'] as const;
    const found = await transfersOfBatch(sql, batch.batch_id, waiting, CANCELLED_AT_ONCE);
    const { account_id } = batch;
    const { answer, position } = await cancelTransfers(commands, account_id, found, causeOf(batch));
    await commands.waitFor('transfers', position);
    more = found.hasMore && answer.done > 0;
  }
}

async function complete({ commands }: ActionDeps, batch: CountedBatch): Promise<void> {
  const { batch_id, counts } = batch;
  const { completed, failed, cancelled } = counts.transfers;
  const ended = { completed, failed, cancelled };
  const bytes = counts.completedBytes;
  const command = (now: string) => ({ type: 'complete', ended, bytes, now }) as const;
  const { position } = await changeBatch(commands, batch_id, command, causeOf(batch));
  await commands.waitFor('batches', position);
}

/**
 * Lists what the batch has, creates the transfers of all pages, and opens the batch. Those of a
 * cancelled batch are created as cancelled ones, so every item has its transfer.
 */
export async function create(
  { sql, commands }: ActionDeps,
  batch: CountedBatch,
  stop: AbortSignal,
  onWait: (waits: boolean) => void,
): Promise<void> {
  let last: KnownBatch | null = null;
  for await (const { after } of readBatch(commands, batch.batch_id)) last = after;
  if (last?.state.status === 'creating' && !last.state.listed)
    last = await listBatch(commands, sql, last, causeOf(batch), stop);
  // Another action follows when the read model shows it.
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
    await pause(FULL_MS, stop);
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
