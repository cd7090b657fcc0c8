import type { Sql } from '../../adapters/postgres/connect.ts';
import { cancelBatch, loadBatch } from '../../commands/batches.ts';
import { cancelTransfers } from '../../commands/bulk.ts';
import { createRetryBatch, type ReservedBatch } from '../../commands/create-batch.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause, Handled } from '../../commands/handle.ts';
import type { CancelledBatch } from '../../contract/batches/answers.ts';
import { BULK_LIMIT } from '../../contract/transfers/bulk.ts';
import type { Batch } from '../../domain/batches/batch.ts';
import { DomainError } from '../../domain/errors.ts';
import { OPEN_STATUSES } from '../../domain/transfers/transfer.ts';
import { retryInCreation, transfersOfBatch } from '../../projections/batches/queries.ts';
import { findChangeable } from '../../projections/transfers/changeable.ts';

export interface BatchDeps {
  sql: Sql;
  commands: CommandDeps;
}

/**
 * Cancels a batch and up to 1,000 of its transfers. The process manager cancels the others. Returns
 * when the read models show it. Throws `not_found` or `batch_not_cancellable`.
 */
export async function cancelWithTransfers(
  { sql, commands }: BatchDeps,
  accountId: string,
  batchId: string,
  cause: Cause,
): Promise<CancelledBatch> {
  // All of this comes before the cancellation: from then on, the process manager cancels too, and
  // what it has cancelled counts here.
  const { state: before } = await loadBatch(commands, accountId, batchId);
  const isShown = before.opened_at !== null && (await commands.catchUp('transfers'));
  const found = await transfersOfBatch(sql, batchId, OPEN_STATUSES, BULK_LIMIT);
  const { state, position } = await cancelBatch(commands, accountId, batchId, cause);
  const { answer, position: last } = await cancelTransfers(commands, accountId, found, cause);
  await Promise.all([commands.waitFor('batches', position), commands.waitFor('transfers', last)]);
  return {
    id: batchId,
    status: 'cancelled',
    cancelled_at: state.cancelled_at as string,
    cancelled: answer.done,
    not_cancelled: answer.refusals,
    has_more: found.hasMore || !isShown,
  };
}

/**
 * Creates a batch that repeats the failed transfers of another one. `repeated` means that an
 * earlier process may have created it. Throws `not_found` or `batch_not_retryable`.
 */
export async function retryBatch(
  { sql, commands }: BatchDeps,
  accountId: string,
  batchId: string,
  cause: Cause,
  reserved: ReservedBatch,
  repeated: boolean,
): Promise<Handled<Batch>> {
  await loadBatch(commands, accountId, batchId);
  // Two retries at the same time would find the same failed transfers.
  return commands.exclusively(`batch-retry:${batchId}`, async (assertHeld) => {
    if (!repeated) await requireFailed({ sql, commands }, accountId, batchId);
    assertHeld();
    const created = await createRetryBatch(commands, accountId, batchId, cause, reserved);
    await commands.waitFor('batches', created.position);
    return created;
  });
}

/**
 * Throws `batch_not_retryable` if the batch has no failed transfer that was not retried yet. While
 * a retry is created, its transfers do not show yet what it retries.
 */
async function requireFailed(
  { sql, commands }: BatchDeps,
  accountId: string,
  batchId: string,
): Promise<void> {
  await commands.catchUp('batches');
  const creating = await retryInCreation(sql, accountId, batchId);
  if (creating !== null)
    throw new DomainError(
      'batch_not_retryable',
      `The batch ${creating} retries what failed in ${batchId}, and is still being created`,
    );
  // Afterwards: a batch that is no longer created has its transfers in the log.
  await commands.catchUp('transfers');
  const filter = { batchId, status: 'failed' } as const;
  const { transferIds } = await findChangeable(sql, accountId, filter, { action: 'retry' }, 1);
  if (transferIds.length === 0)
    throw new DomainError(
      'batch_not_retryable',
      `The batch ${batchId} has no failed transfer that was not retried yet. A bulk retry of ` +
        'transfers, filtered by the batch, copies cancelled ones again. A new batch copies what ' +
        'was rejected.',
    );
}
