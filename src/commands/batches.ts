import { createSemaphore } from '../concurrency/semaphore.ts';
import {
  type Batch,
  type BatchCommand,
  type BatchListed,
  type BatchState,
  batchDecider,
} from '../domain/batches/batch.ts';
import { transfersOf } from '../domain/batches/items.ts';
import { notFound } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { isId } from '../domain/ids.ts';
import { type TransferCommand, transferDecider } from '../domain/transfers/decider.ts';
import type { CommandDeps } from './deps.ts';
import {
  type Cause,
  type Handled,
  type HandleOptions,
  handle,
  load,
  type Timed,
  untouched,
} from './handle.ts';

/** Transfers that are created at once. Their appends share the writes of the log. */
const AT_ONCE = 256;

export type KnownBatch = NonNullable<HandleOptions<BatchState>['known']> & { state: Batch };

/** Cancels a batch. Its transfers are still to be cancelled. Throws `batch_not_cancellable`. */
export async function cancelBatch(
  deps: CommandDeps,
  accountId: string,
  batchId: string,
  cause: Cause,
): Promise<Handled<Batch>> {
  const known = await loadBatch(deps, accountId, batchId);
  return changeBatch(deps, batchId, (now) => ({ type: 'cancel', now }), cause, { known });
}

/**
 * Creates the transfers of pages, those of a cancelled batch as cancelled ones. One that exists
 * stays as it is: its id derives from the batch, so the log rejects a second creation.
 */
export async function createTransfers(
  deps: Pick<CommandDeps, 'store'>,
  batch: Batch,
  pages: BatchListed[],
  cause: Cause,
): Promise<{ transferIds: string[]; position: bigint | null }> {
  const { cancelled_at: now } = batch;
  const transfers = pages.flatMap((page) => transfersOf(batch, page));
  const known = untouched(transferDecider.initialState);
  let position: bigint | null = null;
  await createSemaphore(AT_ONCE).forEach(transfers, async ({ transferId, data }) => {
    const stream = streamName('transfer', transferId);
    const reserved = { now: data.created_at };
    const command: TransferCommand =
      now === null ? { type: 'create', data } : { type: 'create_cancelled', data, now };
    const handled = await handle(deps.store, transferDecider, stream, command, cause, {
      reserved,
      known,
      remember: now === null,
    });
    if (handled.position !== null && handled.position > (position ?? -1n))
      position = handled.position;
  });
  return { transferIds: transfers.map(({ transferId }) => transferId), position };
}

/** Records that every item has its transfer. */
export function openBatch(
  deps: Pick<CommandDeps, 'store'>,
  known: KnownBatch,
  cause: Cause,
): Promise<Handled<Batch>> {
  const command = (now: string): BatchCommand => ({ type: 'open', now });
  return changeBatch(deps, known.state.batch_id, command, cause, { known });
}

/** Loads a batch of an account. Throws `not_found`. */
export async function loadBatch(
  { store }: Pick<CommandDeps, 'store'>,
  accountId: string,
  batchId: string,
): Promise<KnownBatch> {
  if (!isId('bat', batchId)) throw notFound('batch');
  const { state, ...known } = await load(store, batchDecider, streamName('batch', batchId));
  if (state.status === 'none' || state.account_id !== accountId) throw notFound('batch');
  return { state, ...known };
}

export async function changeBatch(
  { store }: Pick<CommandDeps, 'store'>,
  batchId: string,
  command: Timed<BatchCommand>,
  cause: Cause,
  options: HandleOptions<BatchState> = {},
): Promise<Handled<Batch>> {
  const { state, ...handled } = await handle(
    store,
    batchDecider,
    streamName('batch', batchId),
    command,
    cause,
    options,
  );
  if (state.status === 'none') throw notFound('batch');
  return { state, ...handled };
}
