import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { changeBatch, type KnownBatch } from '../../commands/batches.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import {
  type Batch,
  type BatchFolder,
  type BatchListed,
  MAX_FILES,
} from '../../domain/batches/batch.ts';
import { createPager, type RoutedItem, urisOf } from '../../domain/batches/items.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { routeOf } from '../../domain/endpoints/route.ts';
import { DomainError } from '../../domain/errors.ts';
import type { ListingError } from '../../domain/flows/flow.ts';
import { optionsOf, optionsOfItem } from '../../domain/transfers/options.ts';
import { failedOfBatch } from '../../projections/batches/queries.ts';
import { retriedAmong } from '../../projections/transfers/changeable.ts';
import { forgetFailingListing, noteFailingListing } from './failing-listings.ts';
import { findFiles } from './folder.ts';
import type { Found } from './walk.ts';

/**
 * Lists the files of a folder, or the failed transfers of another batch, into pages, after those
 * that were recorded. Stops if the batch is cancelled, or if another process lists it. Returns the
 * batch as it left it.
 */
export async function listBatch(
  deps: CommandDeps,
  sql: Sql,
  known: KnownBatch,
  cause: Cause,
  stop: AbortSignal,
): Promise<KnownBatch> {
  const endpoints = await deps.endpoints();
  const { source } = known.state;
  const files =
    source.type === 'folder'
      ? filesOf({ vault: deps.vault, sql }, endpoints, known.state, source, stop)
      : failedOf(sql, endpoints, known.state);
  return recordPages(deps, known, files, cause, stop);
}

/**
 * Records files in pages of a batch, after those that it has, and ends its list. Stops if the batch
 * is cancelled, or if another process records its files. Returns the batch as it left it.
 */
export async function recordPages(
  deps: CommandDeps,
  known: KnownBatch,
  files: AsyncIterable<Listed>,
  cause: Cause,
  stop: AbortSignal,
): Promise<KnownBatch> {
  const { batch_id, account_id, priority } = known.state;
  const { startsInMs } = await deps.queueEstimate(account_id, priority);
  const pager = createPager(known.state.items, (routes) => {
    const now = Date.now();
    return {
      listed_at: new Date(now).toISOString(),
      estimated_start: new Date(now + startsInMs(routes)).toISOString(),
    };
  });
  let before = known;
  let listed = before.state.items;
  const record = async (page: ReturnType<typeof pager.end>) => {
    before = await changeBatch(deps, batch_id, { type: 'list', page }, cause, { known: before });
    return isListing(before.state, page);
  };
  for await (const { item, through } of files) {
    const most = listed === MAX_FILES;
    const page = pager.add(most ? tooMany(item) : item, through);
    if (page && !(await record(page))) return before;
    if (most || stop.aborted) break;
    listed++;
  }
  if (!stop.aborted) await record(pager.end());
  return before;
}

/** Returns false if another process has appended to the batch. */
function isListing({ status, listed, items, through }: Batch, page: BatchListed): boolean {
  const expected = page.first + page.items.length;
  return status === 'creating' && !listed && items === expected && through === page.through;
}

/** An item, and the path or id after which an interrupted listing continues. */
export interface Listed {
  item: RoutedItem;
  through: string;
}

async function* filesOf(
  deps: { vault: Vault; sql: Sql },
  endpoints: readonly Endpoint[],
  batch: Batch,
  folder: BatchFolder,
  stop: AbortSignal,
): AsyncGenerator<Listed, void, void> {
  const { batch_id, account_id, through } = batch;
  let isFailing = false;
  const onFailure = (failure: ListingError) => {
    isFailing = true;
    return noteFailingListing(deps.sql, batch_id, failure);
  };
  const goesOn = async () => {
    if (isFailing) await forgetFailingListing(deps.sql, batch_id);
    isFailing = false;
  };
  const whole = { ...folder, uri: folder.source_uri, retries: true, onFailure };
  try {
    for await (const found of findFiles(deps, endpoints, account_id, whole, through, stop)) {
      await goesOn();
      yield {
        item: toItem(found, folder.source_uri, endpoints, batch, (path) => urisOf(folder, path)),
        through: found.path,
      };
    }
  } finally {
    await goesOn();
  }
}

/**
 * Yields the failed transfers of the batch that another one repeats, unless they were retried. In
 * the order of their ids: neither a clock that steps back nor the retention of `through` changes
 * where it continues.
 */
async function* failedOf(
  sql: Sql,
  endpoints: readonly Endpoint[],
  { account_id, source, through, after, ...common }: Batch,
): AsyncGenerator<Listed, void, void> {
  if (source.type !== 'retry') return;
  for await (const transfers of failedOfBatch(sql, source.batch_id, through)) {
    const retried = await retriedAmong(sql, transfers);
    for (const { facts } of transfers) {
      const { transfer_id, source_uri, destination_uri, priority, metadata } = facts;
      const uris = { source_uri, destination_uri };
      const options = optionsOfItem({ preserve_mtime: false, ...optionsOf(facts) }, common);
      const own = { priority, metadata, ...options, retry_of: transfer_id };
      if (retried.has(transfer_id)) continue;
      yield {
        item: routedOr(source_uri, () => ({
          ...uris,
          ...own,
          route: routeOf({ ...uris, after }, endpoints, account_id),
        })),
        through: transfer_id,
      };
    }
  }
}

/** Returns the item of a file. One that the destination cannot hold is rejected. */
export function toItem(
  { path, error }: Found,
  folderUri: string,
  endpoints: readonly Endpoint[],
  { account_id, after }: Pick<Batch, 'account_id' | 'after'>,
  uriOf: (path: string) => ReturnType<typeof urisOf>,
): RoutedItem {
  let uris: ReturnType<typeof urisOf>;
  try {
    uris = uriOf(path);
  } catch {
    // A name that is not valid Unicode has no URI.
    return rejected(folderUri, 'validation_failed', NOT_UNICODE);
  }
  if (error) return { source_uri: uris.source_uri, error };
  return routedOr(uris.source_uri, () => ({
    ...uris,
    route: routeOf({ ...uris, after }, endpoints, account_id),
  }));
}

/** Returns what `route` returns, or why the item is rejected. */
function routedOr(sourceUri: string, route: () => RoutedItem): RoutedItem {
  try {
    return route();
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return rejected(sourceUri, error.code, messageOf(error));
  }
}

function rejected(source_uri: string, code: string, message: string): RoutedItem {
  return { source_uri, error: { code, message } };
}

const NOT_UNICODE = 'has a file whose name is not valid Unicode';

function messageOf({ message, details: { errors: [first] = [] } }: DomainError): string {
  return first ? `${first.field} ${message}` : message;
}

function tooMany({ source_uri }: RoutedItem): RoutedItem {
  const most = MAX_FILES.toLocaleString('en');
  return rejected(
    source_uri,
    'limit_reached',
    `It and what follows is beyond the ${most} files of a batch: create further batches with other patterns`,
  );
}
