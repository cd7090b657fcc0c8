import type { StoredEvent } from '../domain/event.ts';
import { eventHash } from './event-hash.ts';

export interface ChainVerifier {
  /** What is wrong with the next event of the log, in words; nothing where all is well. */
  check(event: StoredEvent): string[];
  /** Streams seen so far. */
  streams(): number;
}

interface Link {
  revision: number;
  id: string;
  occurredAt: string;
  hash: string;
}

const LAST_TYPES = ['transfer.completed', 'transfer.failed', 'transfer.cancelled'];

/** Checks that each stream is whole, in order and unchanged. Events come in the order of the log, unaltered by upcasters. */
export function createChainVerifier(): ChainVerifier {
  // Only streams that may go on: memory does not grow with the transfers that have ended.
  const open = new Map<string, Link>();
  let streams = 0;

  return {
    check(event) {
      const before = open.get(event.stream) ?? null;
      if (before === null) streams++;
      if (LAST_TYPES.includes(event.type)) open.delete(event.stream);
      else open.set(event.stream, linkOf(event));
      return problems(event, before);
    },
    streams: () => streams,
  };
}

function linkOf(event: StoredEvent): Link {
  return { revision: event.revision, id: event.id, occurredAt: event.metadata.occurred_at, hash: eventHash(event) };
}

function problems({ id, revision, metadata }: StoredEvent, before: Link | null): string[] {
  const expected = (before?.revision ?? -1) + 1;
  if (revision !== expected) return [`revision ${expected} was expected: an event is missing, or one follows the end of a transfer`];
  const found: string[] = [];
  if (metadata.prev_hash !== (before?.hash ?? null))
    found.push('prev_hash is not the hash of the event before it: one of the two was changed');
  if (before !== null && id <= before.id) found.push('its id is not greater than that of the event before it');
  if (before !== null && metadata.occurred_at < before.occurredAt) found.push('it is dated earlier than the event before it');
  return found;
}
