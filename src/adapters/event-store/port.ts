import type { NewEvent, StoredEvent } from '../../domain/event.ts';

/** The revision that the writer last saw, or that there was no stream yet. */
export type ExpectedRevision = number | 'no_stream';

export interface AppendResult {
  /** Revision of the last event appended. */
  revision: number;
  /** Position of the last event appended. */
  position: bigint;
}

/**
 * What a subscription gives: events in the order of the log, and behind them the position up to which
 * (inclusive) everything has now been given. Only such a position may be kept as a checkpoint.
 */
export interface Batch {
  events: StoredEvent[];
  position: bigint;
  /** True when nothing more lay in the log at the moment this batch was read. */
  caughtUp: boolean;
}

export interface SubscribeOptions {
  /** Exclusive; null starts before the first event. */
  from: bigint | null;
  signal: AbortSignal;
  /** At most so many events in a batch. */
  batchSize?: number;
  /** Only streams whose name (without the installation's prefix) starts with one of these. All of them by default. */
  streams?: string[];
}

/** The log holds another revision than the writer last saw: load again, decide again. */
export class RevisionConflict extends Error {
  override readonly name = 'RevisionConflict';
  readonly stream: string;
  readonly expected: ExpectedRevision;
  /** null where the engine does not tell. */
  readonly actual: ExpectedRevision | null;

  constructor(stream: string, expected: ExpectedRevision, actual: ExpectedRevision | null) {
    super(`${stream}: expected revision ${expected}, found ${actual ?? 'another'}`);
    this.stream = stream;
    this.expected = expected;
    this.actual = actual;
  }
}

/** The engine can't be reached or did not answer in time. Whether an append was made is unknown: repeat it with the same ids. */
export class EventStoreUnavailable extends Error {
  override readonly name = 'EventStoreUnavailable';
}

/**
 * The log of one installation. Stream names carry no prefix here: an engine adds its own and sees
 * nothing else. Every engine passes the suite in `test/adapters/event-store/contract.ts`.
 */
export interface EventStore {
  /**
   * Appends all events or none. An append repeated with the same ids at the same revision gives the
   * first one's result. Throws RevisionConflict, EventStoreUnavailable (after retries within its time
   * limit), or RangeError for an empty append.
   */
  append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult>;
  /** All events of a stream from `fromRevision` (0) on, oldest first; none where there is no such stream. */
  read(stream: string, fromRevision?: number): Promise<StoredEvent[]>;
  /**
   * Everything under the prefix, past and to come, until the signal aborts (then it returns; it does
   * not throw). Reconnects by itself and goes on where it was. A batch may be empty where only the
   * position moved. The consumer's pace is the reader's pace: nothing is read far ahead.
   */
  subscribe(options: SubscribeOptions): AsyncIterable<Batch>;
  /** Position of the newest event of the whole log; null for an empty one. Throws EventStoreUnavailable. */
  head(): Promise<bigint | null>;
  close(): Promise<void>;
}
