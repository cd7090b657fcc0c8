import { pagesOf } from '../../adapters/event-store/pages.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import {
  type BatchItem,
  type BatchListed,
  isRejected,
  MAX_FILES,
} from '../../domain/batches/batch.ts';
import type { RoutedItem } from '../../domain/batches/items.ts';
import { streamName } from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import type { Flow } from '../../domain/flows/flow.ts';
import { keepsPath } from '../../domain/flows/template.ts';
import { placesOf } from '../../domain/uri.ts';

/*
 * Two files of one run must not have the same destination, as `a/sales.csv` and `b/sales.csv` have
 * with `{name}`. One would replace the other, and a step after the transfers would delete both
 * sources.
 */

/** Pages that are read at a time. */
const READ_AT_ONCE = 100;

/** Tells the files of a run apart by their destinations. */
export interface Destinations {
  /** Returns the item. It is rejected if an earlier one of the run has its destination. */
  take(item: RoutedItem): RoutedItem;
}

/** Creates the destinations of a run that has no files yet. */
export function createDestinations({ destination_uri: template }: Flow): Destinations {
  return keepsPath(template) ? { take: (item) => item } : compareWith(new Map());
}

/** Returns the destinations of a run, with those of the files that its batch has. */
export async function destinationsOf(
  { store }: Pick<CommandDeps, 'store'>,
  flow: Flow,
  batchId: string,
): Promise<Destinations> {
  if (keepsPath(flow.destination_uri)) return createDestinations(flow);
  const sources = new Map<string, string>();
  for await (const events of pagesOf(store, streamName('batch', batchId), 0, READ_AT_ONCE))
    for (const { type, data } of events.map(upcast)) {
      if (type !== 'batch.listed') continue;
      for (const item of (data as BatchListed).items)
        if (!isRejected(item)) sources.set(placeOf(item), item.source_uri);
    }
  return compareWith(sources);
}

/** `sources` are the URIs of the files, by their destinations. */
function compareWith(sources: Map<string, string>): Destinations {
  return {
    take(item) {
      if ('error' in item) return item;
      const place = placeOf(item);
      const other = sources.get(place);
      if (other !== undefined) return { source_uri: item.source_uri, error: isTaken(other) };
      // A run has no more files. A dry run goes on.
      if (sources.size < MAX_FILES) sources.set(place, item.source_uri);
      return item;
    },
  };
}

function placeOf({
  source_uri,
  destination_uri,
}: Pick<BatchItem, 'source_uri' | 'destination_uri'>): string {
  return placesOf(source_uri, destination_uri).destination;
}

function isTaken(other: string) {
  return {
    code: 'validation_failed',
    message: `has the same destination as ${other}: put {path} into destination_uri`,
  };
}
