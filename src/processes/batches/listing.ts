import { changeBatch, type KnownBatch } from '../../commands/batches.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { NOT_ON_AN_ENDPOINT, routeOf } from '../../commands/transfers.ts';
import { type Batch, type BatchFolder, MOST_FILES } from '../../domain/batch.ts';
import { createPager, type RoutedItem, urisOf } from '../../domain/batch-items.ts';
import { type Endpoint, hasFolders } from '../../domain/endpoint.ts';
import { DomainError } from '../../domain/errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { openLister } from '../endpoints/access.ts';
import { type Found, walk } from './walk.ts';

/**
 * Lists the folder of a batch into pages, after those that were recorded. Stops if the batch is
 * cancelled, or if another process lists it.
 */
export async function listFolder(
  deps: CommandDeps,
  known: KnownBatch,
  folder: BatchFolder,
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
  for await (const found of findFiles(deps, endpoints, known.state, folder, stop)) {
    const most = listed === MOST_FILES;
    const item = most ? tooMany(folder) : toItem(found, folder, endpoints, account_id);
    const page = pager.add(item, found.path);
    if (page && !(await record(page))) return;
    if (most) break;
    listed++;
  }
  if (!stop.aborted) await record(pager.end());
}

/** Returns false if another process has appended to the batch. */
function isListing({ status, listed, items }: Batch, expected: number): boolean {
  return status === 'creating' && !listed && items === expected;
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
  let source_uri = folder.source_uri;
  try {
    const uris = urisOf(folder, path);
    source_uri = uris.source_uri;
    return error ? { source_uri, error } : { ...uris, route: routeOf(uris, endpoints, accountId) };
  } catch (reason) {
    if (reason instanceof DomainError)
      return { source_uri, error: { code: reason.code, message: messageOf(reason) } };
    // A name that is not valid Unicode has no URI.
    if (reason instanceof URIError)
      return { source_uri, error: { code: 'validation_failed', message: NOT_UNICODE } };
    throw reason;
  }
}

const NOT_UNICODE = 'has a file whose name is not valid Unicode';

function messageOf({ message, details: { errors: [first] = [] } }: DomainError): string {
  return first ? `${first.field} ${message}` : message;
}

function tooMany({ source_uri }: BatchFolder): RoutedItem {
  const most = MOST_FILES.toLocaleString('en');
  const message = `The folder has more than ${most} files: create further batches with other patterns`;
  return { source_uri, error: { code: 'limit_reached', message } };
}
