import type { Sql } from '../../adapters/postgres/connect.ts';
import { changeBatch, type KnownBatch } from '../../commands/batches.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { NOT_ON_AN_ENDPOINT, routeOf } from '../../commands/transfers.ts';
import { type Batch, type BatchFolder, MOST_FILES } from '../../domain/batch.ts';
import { createPager, type RoutedItem, urisOf } from '../../domain/batch-items.ts';
import { type Endpoint, hasFolders } from '../../domain/endpoint.ts';
import { DomainError } from '../../domain/errors.ts';
import { optionsOf } from '../../domain/transfer-options.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { retriedAmong } from '../../projections/changeable-transfers.ts';
import { eachTransfer } from '../../projections/transfer-queries.ts';
import { openLister } from '../endpoints/access.ts';
import { type Found, walk } from './walk.ts';

/**
 * Lists the files of a folder, or the failed transfers of another batch, into pages, after those
 * that were recorded. Stops if the batch is cancelled, or if another process lists it.
 */
export async function listBatch(
  deps: CommandDeps,
  sql: Sql,
  known: KnownBatch,
  cause: Cause,
  stop: AbortSignal,
): Promise<void> {
  const { batch_id, account_id, priority } = known.state;
  const endpoints = await deps.endpoints();
  const { startsInMs } = await deps.queueEstimate(account_id, priority);
  const pager = createPager(known.state.items, () => {
    const now = Date.now();
    return {
      listed_at: new Date(now).toISOString(),
      estimated_start: new Date(now + startsInMs).toISOString(),
    };
  });
  let before = known;
  let listed = before.state.items;
  const record = async (page: ReturnType<typeof pager.end>) => {
    before = await changeBatch(deps, batch_id, { type: 'list', page }, cause, { known: before });
    return isListing(before.state, page.first + page.items.length);
  };
  const { source } = known.state;
  const files =
    source.type === 'folder'
      ? filesOf(deps, endpoints, known.state, source, stop)
      : failedOf(sql, endpoints, known.state);
  for await (const { item, through } of files) {
    const most = listed === MOST_FILES;
    const page = pager.add(most ? tooMany(item) : item, through);
    if (page && !(await record(page))) return;
    if (most || stop.aborted) break;
    listed++;
  }
  if (!stop.aborted) await record(pager.end());
}

/** Returns false if another process has appended to the batch. */
function isListing({ status, listed, items }: Batch, expected: number): boolean {
  return status === 'creating' && !listed && items === expected;
}

interface Listed {
  item: RoutedItem;
  through: string;
}

async function* filesOf(
  deps: CommandDeps,
  endpoints: readonly Endpoint[],
  batch: Batch,
  folder: BatchFolder,
  stop: AbortSignal,
): AsyncGenerator<Listed, void, void> {
  for await (const found of findFiles(deps, endpoints, batch, folder, stop))
    yield { item: toItem(found, folder, endpoints, batch.account_id), through: found.path };
}

/** Yields the failed transfers of the batch that another one repeats, unless they were retried. */
async function* failedOf(
  sql: Sql,
  endpoints: readonly Endpoint[],
  { account_id, source, through }: Batch,
): AsyncGenerator<Listed, void, void> {
  if (source.type !== 'retry') return;
  const filter = { batchId: source.batch_id, status: 'failed' } as const;
  let isNew = through === null;
  for await (const transfers of eachTransfer(sql, account_id, filter, 'created_at')) {
    const retried = await retriedAmong(sql, transfers);
    for (const { facts } of transfers) {
      const { transfer_id, source_uri, destination_uri, priority, metadata } = facts;
      const uris = { source_uri, destination_uri };
      const own = { priority, metadata, ...optionsOf(facts), retry_of: transfer_id };
      if (isNew && !retried.has(transfer_id))
        yield {
          item: routedOr(source_uri, () => ({
            ...uris,
            ...own,
            route: routeOf(uris, endpoints, account_id),
          })),
          through: transfer_id,
        };
      if (transfer_id === through) isNew = true;
    }
  }
}

async function* findFiles(
  { vault }: CommandDeps,
  endpoints: readonly Endpoint[],
  { account_id, through }: Batch,
  folder: BatchFolder,
  stop: AbortSignal,
): AsyncGenerator<Found, void, void> {
  const uri = parseTransferUri(folder.source_uri, 'source_uri');
  const source = matchEndpoint(uri, endpoints, account_id);
  if (!source) {
    yield { path: '', error: { code: 'endpoint_not_configured', message: NOT_ON_AN_ENDPOINT } };
    return;
  }
  const { endpoint, path: root } = source;
  const lister = await openLister(vault, endpoint);
  const remote = (path: string) => {
    const whole = (root + path).replace(/\/$/, '');
    return whole === '' && hasFolders(endpoint.settings) ? '/' : whole;
  };
  try {
    yield* walk((path) => lister.list(remote(path), stop), folder, through, stop);
  } finally {
    await lister.close();
  }
}

/** Returns the item of a file. One that the destination cannot hold is rejected. */
function toItem(
  { path, error }: Found,
  folder: BatchFolder,
  endpoints: readonly Endpoint[],
  accountId: string,
): RoutedItem {
  let uris: ReturnType<typeof urisOf>;
  try {
    uris = urisOf(folder, path);
  } catch {
    // A name that is not valid Unicode has no URI.
    return rejected(folder.source_uri, 'validation_failed', NOT_UNICODE);
  }
  if (error) return { source_uri: uris.source_uri, error };
  return routedOr(uris.source_uri, () => ({
    ...uris,
    route: routeOf(uris, endpoints, accountId),
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
  const most = MOST_FILES.toLocaleString('en');
  return rejected(
    source_uri,
    'limit_reached',
    `It and what follows is beyond the ${most} files of a batch: create further batches with other patterns`,
  );
}
