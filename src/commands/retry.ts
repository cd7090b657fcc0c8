import { streamName } from '../domain/streams.ts';
import type { Transfer } from '../domain/transfer.ts';
import { assertRetryable } from '../domain/transfer-decider.ts';
import { stateAsOf } from '../domain/transfer-history.ts';
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

/**
 * Creates a transfer under reserved ids, once. `repeated` means that an earlier process may have
 * created it already: then the log decides. Returns the transfer as it was created.
 */
export async function createOnce(
  { store }: Pick<CommandDeps, 'store'>,
  reserved: ReservedTransfer,
  repeated: boolean,
  create: () => Promise<Handled<Transfer>>,
): Promise<Pick<Handled<Transfer>, 'state' | 'position'>> {
  if (!repeated) return create();
  const stream = streamName('transfer', reserved.transferId);
  if ((await store.read(stream)).length === 0) await create();
  const events = await store.read(stream);
  return {
    state: stateAsOf(events, { revision: 0 }),
    position: events[0]?.position ?? null,
  };
}
