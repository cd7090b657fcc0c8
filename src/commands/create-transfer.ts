import type { TransferRequest } from '../contract/transfers/requests.ts';
import { routeOf } from '../domain/endpoints/route.ts';
import { DomainError } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { transferDecider } from '../domain/transfers/decider.ts';
import { stateAsOf } from '../domain/transfers/history.ts';
import { optionsOf } from '../domain/transfers/options.ts';
import type { Transfer, TransferCreated } from '../domain/transfers/transfer.ts';
import { placesOf } from '../domain/uri.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, type Handled, untouched } from './handle.ts';
import { changeTransfer } from './transfers.ts';

/** Id and time that a creation fixes before it appends. A retry after a crash uses the same ones. */
export interface ReservedTransfer {
  transferId: string;
  now: string;
}

export function reserveTransfer(): ReservedTransfer {
  const now = Date.now();
  return {
    transferId: newId('txr', now),
    now: new Date(now).toISOString(),
  };
}

/**
 * Creates a transfer. `retryOf` is the transfer that it repeats. Throws:
 *
 * - `endpoint_not_configured` if no endpoint that the account may use matches the destination
 * - `validation_failed` if a URI is invalid, or source and destination are the same file
 * - `limit_reached` if the account has too many open transfers
 */
export async function createTransfer(
  deps: CommandDeps,
  accountId: string,
  request: TransferRequest,
  cause: Cause,
  reserved: ReservedTransfer = reserveTransfer(),
  retryOf: string | null = null,
): Promise<Handled<Transfer>> {
  const { source_uri, destination_uri } = request;
  const queueEstimate = await deps.queueEstimate(accountId, request.priority);
  if (queueEstimate.openTransfers >= deps.maxOpenTransfers) {
    throw new DomainError(
      'limit_reached',
      `The account has ${queueEstimate.openTransfers} open transfers, and ` +
        `${deps.maxOpenTransfers} are allowed: wait until some have ended`,
    );
  }
  const route = routeOf(request, queueEstimate.endpoints, accountId);
  const estimatedStart = new Date(
    Date.parse(reserved.now) + queueEstimate.startsInMs([route]),
  ).toISOString();
  const data: TransferCreated = {
    transfer_id: reserved.transferId,
    account_id: accountId,
    ...placesOf(source_uri, destination_uri),
    source_uri,
    destination_uri,
    ...route,
    priority: request.priority,
    notify_on_complete: request.notify_on_complete,
    metadata: request.metadata,
    ...optionsOf(request),
    retry_of: retryOf,
    ...(request.after && { after: request.after }),
    created_at: reserved.now,
    estimated_start: estimatedStart,
  };
  const options = {
    reserved: { now: reserved.now },
    known: untouched(transferDecider.initialState),
    remember: true,
  };
  return changeTransfer(deps, reserved.transferId, { type: 'create', data }, cause, options);
}

/**
 * Creates a transfer under a reserved id, once. `repeated` means that an earlier process may have
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
