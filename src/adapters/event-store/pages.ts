import type { StoredEvent } from '../../domain/events/event.ts';
import type { EventStore } from './port.ts';

/** Yields the events of a stream from a revision on, `size` at a time, up to its end. */
export async function* pagesOf(
  store: Pick<EventStore, 'read'>,
  stream: string,
  revision: number,
  size: number,
): AsyncGenerator<StoredEvent[]> {
  for (let next = revision; ; next += size) {
    const events = await store.read(stream, next, size);
    yield events;
    if (events.length < size) return;
  }
}
