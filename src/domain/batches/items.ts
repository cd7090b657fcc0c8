import { optionsOf } from '../transfers/options.ts';
import type { TransferCreated } from '../transfers/transfer.ts';
import { encodePath, placesOf } from '../uri.ts';
import {
  type BatchCreated,
  type BatchFolder,
  type BatchItem,
  type BatchListed,
  type BatchRoute,
  isRejected,
  type RejectedItem,
} from './batch.ts';

/**
 * Largest page, in bytes of JSON, unless a single item is larger. A consumer reads up to a thousand
 * events at a time, and a rebuild five thousand: they must fit into memory.
 */
const PAGE_BYTES = 32 * 1024;

const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
/** Characters of an id that tell the items of a batch apart: up to 33,554,432 items. */
const PLACE_CHARACTERS = 5;

/** A transfer of a batch, with the id that derives from the batch and the place of the item. */
export interface BatchTransfer {
  transferId: string;
  data: TransferCreated;
}

/**
 * Returns the id of the transfer of an item. It is the id of the batch, whose end makes way for the
 * place of the item. So every process derives the same id, and ids rise with the place.
 */
export function transferIdOf(batchId: string, place: number): string {
  let text = '';
  for (let rest = place; text.length < PLACE_CHARACTERS; rest = Math.floor(rest / 32))
    text = BASE32[rest % 32] + text;
  return startOfIds(batchId) + text;
}

/** Returns a text before all ids of transfers of a batch, and the last id that one could have. */
export function idsOfBatch(batchId: string): { before: string; last: string } {
  const before = startOfIds(batchId);
  return { before, last: before + BASE32.slice(-1).repeat(PLACE_CHARACTERS) };
}

function startOfIds(batchId: string): string {
  return `txr_${batchId.slice('bat_'.length, -PLACE_CHARACTERS)}`;
}

/** Returns the transfers of a page. They derive from the log alone. */
export function transfersOf(batch: BatchCreated, page: BatchListed): BatchTransfer[] {
  return page.items.flatMap((item, i) =>
    isRejected(item) ? [] : [transferOf(batch, page, item, page.first + i)],
  );
}

function transferOf(
  batch: BatchCreated,
  page: BatchListed,
  item: BatchItem,
  place: number,
): BatchTransfer {
  const { batch_id, account_id, notify_on_complete, after } = batch;
  const { source_uri, destination_uri } = item;
  const data: TransferCreated = {
    transfer_id: transferIdOf(batch_id, place),
    account_id,
    ...placesOf(source_uri, destination_uri),
    source_uri,
    destination_uri,
    ...(page.routes[item.route] as BatchRoute),
    priority: item.priority ?? batch.priority,
    notify_on_complete,
    metadata: item.metadata ?? batch.metadata,
    ...optionsOf({ ...batch, ...item }),
    retry_of: item.retry_of ?? null,
    batch_id,
    ...(item.version !== undefined && { listed_version: item.version }),
    ...(after && { after }),
    created_at: page.listed_at,
    estimated_start: page.estimated_start,
  };
  return { transferId: data.transfer_id, data };
}

/** An item with the endpoints that its URIs match, or a rejected one. */
export type RoutedItem = (Omit<BatchItem, 'route'> & { route: BatchRoute }) | RejectedItem;

/** Collects items into pages. */
export interface Pager {
  /** Adds an item. Returns the page that it completes, or null. */
  add(item: RoutedItem, through: string | null): BatchListed | null;
  /** Returns the last page, which may be empty. */
  end(): BatchListed;
}

/**
 * Creates a pager that continues after `first` items. `times` returns the times of a page with these
 * routes.
 */
export function createPager(
  first: number,
  times: (routes: BatchRoute[]) => Pick<BatchListed, 'listed_at' | 'estimated_start'>,
): Pager {
  let page = empty(first, null);
  let bytes = 0;

  function empty(
    at: number,
    through: string | null,
  ): Omit<BatchListed, keyof ReturnType<typeof times>> {
    return { first: at, routes: [], items: [], through, last: false };
  }

  function place(route: BatchRoute): number {
    const known = page.routes.findIndex(
      ({ source_endpoint_id, destination_endpoint_id }) =>
        source_endpoint_id === route.source_endpoint_id &&
        destination_endpoint_id === route.destination_endpoint_id,
    );
    return known < 0 ? page.routes.push(route) - 1 : known;
  }

  return {
    add(item, through) {
      const size = Buffer.byteLength(JSON.stringify(item)) + 1;
      let full: BatchListed | null = null;
      if (bytes > 0 && bytes + size > PAGE_BYTES) {
        full = { ...page, ...times(page.routes) };
        page = empty(page.first + page.items.length, page.through);
        bytes = 0;
      }
      page.items.push(isRejectedItem(item) ? item : { ...item, route: place(item.route) });
      page.through = through;
      bytes += size;
      return full;
    },
    end: () => ({ ...page, last: true, ...times(page.routes) }),
  };
}

function isRejectedItem(item: RoutedItem): item is RejectedItem {
  return 'error' in item;
}

/** Returns the URIs of a file of a folder. `path` is relative to the folder and not encoded. */
export function urisOf(
  { source_uri, destination_uri }: Pick<BatchFolder, 'source_uri' | 'destination_uri'>,
  path: string,
): { source_uri: string; destination_uri: string } {
  const encoded = encodePath(path);
  return { source_uri: source_uri + encoded, destination_uri: destination_uri + encoded };
}
