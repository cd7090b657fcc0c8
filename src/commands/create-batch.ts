import type { BatchRequest } from '../contract/batches/requests.ts';
import {
  type Batch,
  type BatchCommand,
  type BatchCreated,
  type BatchListed,
  type BatchSource,
  batchDecider,
} from '../domain/batches/batch.ts';
import { createPager, type RoutedItem, urisOf } from '../domain/batches/items.ts';
import { NOT_ON_AN_ENDPOINT, routeOf } from '../domain/endpoints/route.ts';
import { DomainError, type FieldError, fieldError, MAX_ERRORS } from '../domain/errors.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { refuseMovesInto, removesSource } from '../domain/transfers/after.ts';
import { type CommonOptions, optionsOf, optionsOfItem } from '../domain/transfers/options.ts';
import { matchEndpoint, parseTransferUri, placesOf } from '../domain/uri.ts';
import { changeBatch, createTransfers, loadBatch, openBatch } from './batches.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, type Handled, load, untouched } from './handle.ts';

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

export interface CreatedBatch {
  batch: Handled<Batch>;
  /** The transfers of the items, in order. */
  transferIds: string[];
  /** The last one of a transfer; null if there is none. */
  position: bigint | null;
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

type CommonField = 'priority' | 'metadata' | 'notify_on_complete' | 'after' | keyof CommonOptions;

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

/** Routes all items of a request. Throws an error that names the fields of all invalid items. */
async function pagesOf(
  deps: CommandDeps,
  accountId: string,
  { items = [], priority, after, ...common }: BatchRequest,
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
  const pager = createPager(0, (routes) => ({
    listed_at: now,
    estimated_start: new Date(Date.parse(now) + estimate.startsInMs(routes)).toISOString(),
  }));
  const errors: FieldError[] = [];
  const pages: BatchListed[] = [];
  const requireOwn = removesSource(after) ? noSharedDestinations() : null;
  for (const [i, item] of items.entries()) {
    const routed = routedOr(errors, i, () => {
      const { priority: own, metadata, source_uri, destination_uri } = item;
      const uris = { source_uri, destination_uri };
      requireOwn?.(uris, i);
      return {
        ...uris,
        route: routeOf({ ...uris, after }, estimate.endpoints, accountId),
        ...(own !== undefined && { priority: own }),
        ...(metadata !== undefined && { metadata }),
        ...optionsOfItem(item, common),
      };
    });
    const page = routed && pager.add(routed, null);
    if (page) pages.push(page);
  }
  const [first] = errors;
  if (first) throw invalidItems(errors, first);
  return [...pages, pager.end()];
}

/**
 * Returns a function that throws `validation_failed` for an item with the destination of an earlier
 * one: one copy would replace the other, and both sources would go.
 */
function noSharedDestinations() {
  const known = new Map<string, number>();
  return (
    { source_uri, destination_uri }: Record<'source_uri' | 'destination_uri', string>,
    i: number,
  ) => {
    const { destination } = placesOf(source_uri, destination_uri);
    const other = known.get(destination);
    if (other !== undefined)
      throw fieldError(
        'destination_uri',
        `is also that of items[${other}], and after.source removes the sources of both: ` +
          'give each item its own destination',
      );
    known.set(destination, i);
  };
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
