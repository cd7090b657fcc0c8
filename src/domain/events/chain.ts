import { nextEventId } from '../ids.ts';
import { storableData } from '../storable.ts';
import { inKeyOrder } from './canonical-json.ts';
import type { Event, EventMetadata, NewEvent } from './event.ts';
import { eventHash } from './event-hash.ts';
import { schemaVersion } from './upcast.ts';

/** Who caused the events of one append, and for whom. */
export type Causation = Omit<EventMetadata, 'occurred_at' | 'prev_hash'>;

/**
 * Gives decided events their ids, times and places in the hash chain of their stream, whose last
 * event is `last`. `eventId` is for the first event of a stream.
 *
 * Their data and metadata are put in the order of RFC 8785 once, because the log, the chain and the
 * tree each write them in it: `causation` has to be in it. No string has a NUL: the log could store
 * it, but no read model, and each would stop for good.
 */
export function chain(
  decided: Event[],
  last: NewEvent | null,
  causation: Causation,
  { now, eventId }: { now: string; eventId?: string },
): NewEvent[] {
  const events: NewEvent[] = [];
  for (const { type, data } of decided) {
    const previous = events.at(-1) ?? last;
    const id =
      previous === null && eventId !== undefined
        ? eventId
        : nextEventId(previous?.id ?? null, Date.parse(now));
    events.push({
      id,
      type,
      schema_version: schemaVersion(type),
      data: inKeyOrder(storableData(data)),
      metadata: {
        ...causation,
        occurred_at: timeAfter(previous, now),
        prev_hash: previous && eventHash(previous),
      },
    });
  }
  return events;
}

/** Returns the time of an event after `last`: now, or the time of `last` if that is later. */
export function timeAfter(last: NewEvent | null, now: string): string {
  const before = last?.metadata.occurred_at ?? now;
  return before > now ? before : now;
}
