import type { EventMetadata, StoredEvent } from '../../../../src/domain/events/event.ts';
import { eventHash } from '../../../../src/domain/events/event-hash.ts';
import type { SmallLog } from './small-log.ts';

/** An event whose parts can be changed. */
export type Draft = Omit<StoredEvent, 'data' | 'metadata'> & {
  data: Record<string, unknown>;
  metadata: EventMetadata;
};

interface Changes extends Partial<Omit<Draft, 'data' | 'metadata'>> {
  data?: Record<string, unknown>;
  metadata?: Partial<EventMetadata>;
}

/** A log that can be changed in every way, as who can write to the database can. */
export interface Editor {
  log: Draft[];
  name: SmallLog;
  /** Returns the events of a stream, oldest first. */
  of(stream: keyof SmallLog): Draft[];
  /** Returns an event of a stream; -1 is the last. */
  at(stream: keyof SmallLog, place: number): Draft;
  /** Changes parts of an event; of its data and metadata, only the named fields. */
  set(event: Draft, changes: Changes): void;
  remove(...events: Draft[]): void;
  /** Puts events before another one, or at the end. */
  insert(events: Draft[], before: Draft | null): void;
  /** Returns a copy of an event, with changes. */
  copy(event: Draft, changes?: Partial<Draft>): Draft;
  /** Renumbers the revisions of a stream and recomputes its hashes. */
  repair(stream: string): void;
  /** Gives all events positions without a gap, and moves the head back. */
  close(): void;
}

export function createEditor(
  original: readonly StoredEvent[],
  name: SmallLog,
): Editor & { isClosed(): boolean } {
  const log = structuredClone(original) as Draft[];
  let closed = false;

  const ofName = (stream: string) => log.filter((event) => event.stream === stream);
  const of = (stream: keyof SmallLog) => ofName(name[stream]);

  function close(): void {
    const positions = original.map(({ position }) => position);
    const end = positions.at(-1) as bigint;
    for (const [i, event] of log.entries())
      event.position = positions[i] ?? end + BigInt(i + 1 - positions.length);
    closed = true;
  }

  return {
    log,
    name,
    of,
    at: (stream, place) => of(stream).at(place) as Draft,
    set(event, { data = {}, metadata = {}, ...changes }) {
      Object.assign(event, changes);
      Object.assign(event.data, data);
      Object.assign(event.metadata, metadata);
    },
    remove(...events) {
      for (const event of events) log.splice(log.indexOf(event), 1);
    },
    insert(events, before) {
      log.splice(before === null ? log.length : log.indexOf(before), 0, ...events);
      close();
    },
    copy: (event, changes = {}) => ({ ...structuredClone(event), ...changes }),
    repair(stream) {
      let last: Draft | null = null;
      for (const [revision, event] of ofName(stream).entries()) {
        event.revision = revision;
        event.metadata.prev_hash = last && eventHash(last);
        last = event;
      }
    },
    close,
    isClosed: () => closed,
  };
}
