import type { StoredEvent } from '../domain/event.ts';
import { endsTransfer } from '../domain/transfer.ts';
import { eventHash } from './event-hash.ts';

export interface ChainVerifier {
  /** Returns the problems of the next event of the log, as text; empty if there is none. */
  check(event: StoredEvent): string[];
  /** Returns the number of streams seen so far. */
  streams(): number;
}

interface Link {
  revision: number;
  id: string;
  occurredAt: string;
  hash: string;
}

/**
 * Checks that each stream is complete, in order and unchanged. Pass the events in the order of the
 * log, without upcasting them.
 */
export function createChainVerifier(): ChainVerifier {
  // Holds only streams that may continue, so ended transfers take no memory.
  const open = new Map<string, Link>();
  let streams = 0;

  return {
    check(event) {
      const before = open.get(event.stream) ?? null;
      if (before === null) streams++;
      if (endsTransfer(event.type)) open.delete(event.stream);
      else open.set(event.stream, linkOf(event));
      return problems(event, before);
    },
    streams: () => streams,
  };
}

function linkOf(event: StoredEvent): Link {
  return {
    revision: event.revision,
    id: event.id,
    occurredAt: event.metadata.occurred_at,
    hash: eventHash(event),
  };
}

function problems({ id, revision, metadata }: StoredEvent, before: Link | null): string[] {
  const expected = (before?.revision ?? -1) + 1;
  if (revision !== expected)
    return [
      `revision ${expected} was expected: an event is missing, or one follows the end of a ` +
        'transfer',
    ];
  const found: string[] = [];
  if (metadata.prev_hash !== (before?.hash ?? null))
    found.push('prev_hash is not the hash of the event before it: one of the two was changed');
  if (before !== null && id <= before.id)
    found.push('its id is not greater than that of the event before it');
  if (before !== null && metadata.occurred_at < before.occurredAt)
    found.push('it is dated earlier than the event before it');
  return found;
}
