import type { EventStore, PositionFault } from '../../adapters/event-store/port.ts';
import { type Fault, nowhere } from './fault.ts';

const WORDS: Record<PositionFault['problem'], (which: string) => string> = {
  missing: (which) => `no event has ${which}: what stood there was removed`,
  beyond_head: (which) => `the head of the log hides the events at ${which}`,
  before_start: (which) =>
    `the log begins with position 1, which hides the events at ${which} from its readers`,
  other_prefix: (which) =>
    `readers miss the events at ${which}: their streams do not begin with WAYBILL_STREAM_PREFIX`,
};

/**
 * Yields the positions without an event that no record of retention explains. `removed` positions
 * count as left empty by retention. `countNamed` returns how many events the records name there.
 */
export async function* positionFaults(
  store: EventStore,
  removed: number,
  countNamed: () => Promise<number>,
): AsyncGenerator<Fault> {
  for await (const { from, to, problem } of store.findPositionFaults?.() ?? []) {
    const which = from === to ? `position ${from}` : `positions ${from} to ${to}`;
    yield nowhere('positions', WORDS[problem](which));
  }
  const named = removed > 0 ? await countNamed() : 0;
  if (removed > named)
    yield nowhere(
      'positions',
      `${removed} positions count as left empty by retention, and its records name only ` +
        `${named} events there: events were removed without a record`,
    );
}
