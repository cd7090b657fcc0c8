import type { StoredEvent } from '../../domain/events/event.ts';

/**
 * What found a fault: the stream by itself, the positions, the functions and triggers of the
 * database, the API, a kept checkpoint, a place that keeps them, or a key that the reader gave.
 */
export type Check = 'stream' | 'positions' | 'code' | 'api' | 'checkpoint' | 'sink' | 'key';

/** A fault of the log and its place. The place is null if the fault concerns no single event. */
export interface Fault {
  check: Check;
  stream: string | null;
  revision: number | null;
  event_id: string | null;
  position: bigint | null;
  problem: string;
}

/** Creates a fault of an event in its stream. */
export function faultIn({ stream, revision, id, position }: StoredEvent, problem: string): Fault {
  return { check: 'stream', stream, revision, event_id: id, position, problem };
}

/** Creates a fault that concerns no single event. */
export function nowhere(check: Check, problem: string): Fault {
  return { check, stream: null, revision: null, event_id: null, position: null, problem };
}
