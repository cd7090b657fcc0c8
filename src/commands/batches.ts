import { createSemaphore } from '../concurrency/semaphore.ts';
import type { BatchRequest } from '../contract/batches/requests.ts';
import {
  type Batch,
  type BatchCommand,
  type BatchCreated,
  type BatchListed,
  type BatchSource,
  type BatchState,
  batchDecider,
} from '../domain/batches/batch.ts';
import { createPager, type RoutedItem, transfersOf, urisOf } from '../domain/batches/items.ts';
import {
  DomainError,
  type FieldError,
  fieldError,
  MAX_ERRORS,
  notFound,
} from '../domain/errors.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { streamName } from '../domain/events/streams.ts';
import { isId, newId } from '../domain/ids.ts';
import { refuseMovesInto } from '../domain/transfers/after.ts';
import { type TransferCommand, transferDecider } from '../domain/transfers/decider.ts';
import { optionsOf } from '../domain/transfers/options.ts';
import { NOT_ON_AN_ENDPOINT, routeOf } from '../domain/transfers/route.ts';
import { matchEndpoint, parseTransferUri } from '../domain/uri.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, type Handled, type HandleOptions, handle, load, untouched } from './handle.ts';

/** Transfers that are created at once. Their appends share the writes of the log. */
const AT_ONCE = 256;

/** Id and time that a creation fixes before it appends. */
export interface ReservedBatch {
  batchId: string;
  now: string;
}

export function reserveBatch(): ReservedBatch {
  const now = Date.now();
  return {
    batchId: newId('bat', now),
    now: new Date(now).toISOString(),
  };
}

export type KnownBatch = NonNullable<HandleOptions<BatchState>['known']> & { state: Batch };

export interface CreatedBatch {
  batch: Handled<Batch>;
  /** The transfers of the items, in order. */
  transferIds: string[];
  /** The last one of a transfer; null if there is none. */
  position: bigint | null;
}

/**
 * Creates a batch of a folder. The process manager lists it and creates the transfers. `repeated`
 * means that an earlier process may have created it already: then the log decides. Throws
 * `endpoint_not_configured` for a folder that is on no endpoint, and what would be wrong with each
 * of its files.
 */
export async function createFolderBatch(
  deps: CommandDeps,
  accountId: string,
  request: BatchRequest,
  cause: Cause,
  reserved: ReservedBatch,
  repeated = false,
): Promise<Handled<Batch>> {
  if (repeated) {
    const known = await load(deps.store, batchDecider, streamName('batch', reserved.batchId));
    if (known.state.status !== 'none') return { ...known, state: known.state, events: [] };
  }
  const { source_uri = '', destination_uri = '', pattern = '*', recursive = false } = request;
  const { exclude = [], after } = request;
  refuseMovesInto(recursive, after);
  const folder = source_uri.endsWith('/') ? source_uri : `${source_uri}/`;
  const endpoints = await deps.endpoints();
  if (!matchEndpoint(parseTransferUri(folder, 'source_uri'), endpoints, accountId))
    throw fieldError('source_uri', NOT_ON_AN_ENDPOINT, 'endpoint_not_configured');
  const source = { type: 'folder', source_uri: folder, destination_uri } as const;
  // What is wrong with a file of any name would reject all files.
  routeOf({ ...urisOf(source, 'name'), after }, endpoints, accountId);
  const data = createdOf(accountId, request, reserved, { ...source, pattern, recursive, exclude });
  const command: BatchCommand = { type: 'create', data, pages: [] };
  return changeBatch(deps, reserved.batchId, command, cause, { reserved });
}

/**
 * Creates a batch that repeats the failed transfers of another one. The process manager finds them.
 * Throws `not_found`.
 */
export async function createRetryBatch(
  deps: CommandDeps,
  accountId: string,
  batchId: string,
  cause: Cause,
  reserved: ReservedBatch,
): Promise<Handled<Batch>> {
  const { state } = await loadBatch(deps, accountId, batchId);
  const source = { type: 'retry', batch_id: batchId } as const;
  const data = createdOf(accountId, state, reserved, source);
  return changeBatch(deps, reserved.batchId, { type: 'create', data, pages: [] }, cause, {
    reserved,
  });
}

/** Cancels a batch. Its transfers are still to be cancelled. Throws `batch_not_cancellable`. */
export async function cancelBatch(
  deps: CommandDeps,
  accountId: string,
  batchId: string,
  cause: Cause,
): Promise<Handled<Batch>> {
  const known = await loadBatch(deps, accountId, batchId);
  const command = { type: 'cancel', now: new Date().toISOString() } as const;
  return changeBatch(deps, batchId, command, cause, { known });
}

type CommonField =
  | 'priority'
  | 'metadata'
  | 'notify_on_complete'
  | 'after'
  | 'verify'
  | 'preserve_mtime';

function createdOf(
  accountId: string,
  common: Pick<BatchRequest, CommonField>,
  { batchId, now }: ReservedBatch,
  source: BatchSource,
): BatchCreated {
  return {
    batch_id: batchId,
    account_id: accountId,
    source,
    priority: common.priority,
    metadata: common.metadata,
    notify_on_complete: common.notify_on_complete,
    ...(common.after && { after: common.after }),
    ...optionsOf(common),
    created_at: now,
  };
}

/**
 * Creates a batch of items, and their transfers. One append has the batch with all of its items, so
 * the process manager can create what a crash leaves out. `repeated` means that an earlier process
 * may have begun. Throws `limit_reached`, or what is wrong with the URIs of all items.
 */
export async function createBatch(
  deps: CommandDeps,
  accountId: string,
  request: BatchRequest,
  cause: Cause,
  reserved: ReservedBatch,
  repeated: boolean,
): Promise<CreatedBatch> {
  const stream = streamName('batch', reserved.batchId);
  const earlier = repeated ? await deps.store.read(stream) : [];
  const pages =
    earlier.length > 0 ? pagesIn(earlier) : await pagesOf(deps, accountId, request, reserved);
  const data = createdOf(accountId, request, reserved, { type: 'items' });
  const created = await changeBatch(
    deps,
    reserved.batchId,
    { type: 'create', data, pages },
    cause,
    {
      reserved,
      ...(earlier.length === 0 && { known: untouched(batchDecider.initialState) }),
    },
  );
  const { transferIds, position } = await createTransfers(deps, created.state, pages, cause);
  const batch = await openBatch(deps, created, cause);
  return { batch, transferIds, position };
}

/** Routes all items of a request. Throws an error that names the fields of all invalid items. */
async function pagesOf(
  deps: CommandDeps,
  accountId: string,
  { items = [], priority, after }: BatchRequest,
  { now }: ReservedBatch,
): Promise<BatchListed[]> {
  const estimate = await deps.queueEstimate(accountId, priority);
  const open = estimate.openTransfers;
  if (open + items.length > deps.maxOpenTransfers)
    throw new DomainError(
      'limit_reached',
      `The account has ${open} open transfers, and ${deps.maxOpenTransfers} are allowed: ` +
        `wait until some have ended, or send fewer items than ${items.length}`,
    );
  const estimated_start = new Date(Date.parse(now) + estimate.startsInMs).toISOString();
  const pager = createPager(0, () => ({ listed_at: now, estimated_start }));
  const errors: FieldError[] = [];
  const pages: BatchListed[] = [];
  for (const [i, item] of items.entries()) {
    const routed = routedOr(errors, i, () => {
      const { priority: own, metadata, source_uri, destination_uri } = item;
      const uris = { source_uri, destination_uri };
      return {
        ...uris,
        route: routeOf({ ...uris, after }, estimate.endpoints, accountId),
        ...(own !== undefined && { priority: own }),
        ...(metadata !== undefined && { metadata }),
        ...optionsOf(item),
      };
    });
    const page = routed && pager.add(routed, null);
    if (page) pages.push(page);
  }
  const [first] = errors;
  if (first) throw invalidItems(errors, first);
  return [...pages, pager.end()];
}

function routedOr(errors: FieldError[], i: number, route: () => RoutedItem): RoutedItem | null {
  try {
    return route();
  } catch (error) {
    if (!(error instanceof DomainError) || !error.details.errors) throw error;
    for (const { field, ...rest } of error.details.errors)
      errors.push({ field: `items[${i}].${field}`, ...rest });
    return null;
  }
}

function invalidItems(errors: FieldError[], { field, code, message }: FieldError): DomainError {
  const shared = errors.every((error) => error.code === code);
  const others = errors.length > 1 ? `, and ${errors.length - 1} more errors` : '';
  return new DomainError(
    shared ? (code as DomainError['code']) : 'validation_failed',
    `${field}: ${message}${others}`,
    { errors: errors.slice(0, MAX_ERRORS) },
  );
}

function pagesIn(events: StoredEvent[]): BatchListed[] {
  return events
    .filter(({ type }) => type === 'batch.listed')
    .map(({ data }) => data as BatchListed);
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
  const command = { type: 'open', now: new Date().toISOString() } as const;
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
  command: BatchCommand,
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
