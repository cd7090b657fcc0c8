import { assertRetryable } from '../domain/transfers/decider.ts';
import type { Transfer } from '../domain/transfers/transfer.ts';
import { createTransfer, type ReservedTransfer, reserveTransfer } from './create-transfer.ts';
import type { CommandDeps } from './deps.ts';
import type { Cause, Handled } from './handle.ts';
import { loadTransfer } from './transfers.ts';

/**
 * Creates a transfer that repeats a failed or cancelled one: with the same URIs, priority,
 * metadata, options and `notify_on_complete`. Throws `not_found`, `transfer_not_retryable`, and
 * what `createTransfer` throws.
 */
export async function retryTransfer(
  deps: CommandDeps,
  accountId: string,
  transferId: string,
  cause: Cause,
  reserved: ReservedTransfer = reserveTransfer(),
): Promise<Handled<Transfer>> {
  const { state } = await loadTransfer(deps, accountId, transferId);
  assertRetryable(state);
  return createTransfer(deps, accountId, state.facts, cause, reserved, transferId);
}
