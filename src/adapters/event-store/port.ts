import type { NewEvent, StoredEvent } from '../../domain/events/event.ts';
import type { Fragment, Queryable } from '../postgres/connect.ts';

/** The revision that the writer last saw, or that there was no stream yet. */
export type ExpectedRevision = number | 'no_stream';

export interface AppendResult {
  /** Revision of the last event appended. */
  revision: number;
  /** Position of the last event appended. */
  position: bigint;
  /**
   * True if this call appended the events. False if the log had events with these ids at these
   * revisions, maybe with other data: by an earlier try, or by another process that uses the same
   * ids. Null if the engine cannot tell.
   */
  isNew: boolean | null;
}

/**
 * What a subscription yields: events in the order of the log, then the position up to which
 * (inclusive) everything has now been delivered. Only such a position may be stored as a
 * checkpoint.
 */
export interface EventBatch {
  events: StoredEvent[];
  position: bigint;
  /** True if the log had no further events when this batch was read. */
  caughtUp: boolean;
}

export interface SubscribeOptions {
  /** Exclusive; null starts before the first event. */
  from: bigint | null;
  signal: AbortSignal;
  /** Maximum number of events in a batch. */
  batchSize?: number;
  /**
   * Only streams whose name (without the installation's prefix) starts with one of these; all
   * streams by default.
   */
  streams?: string[];
  /**
   * What a reader needs of events; all by default. It always gets all of those in streams of the
   * log itself (`log-...`).
   *
   * - `data`: no metadata. An engine may leave it out.
   * - `leaves`: the leaves of the tree. An engine that stores the RFC 8785 form sets `leaf_hash`,
   *   and leaves out data and metadata.
   */
  only?: 'data' | 'leaves' | undefined;
}

/** What stores the log: the installation's own Postgres, or an EventStoreDB. */
export type Engine = 'postgres' | 'eventstoredb';

/**
 * The log has another revision than the writer last saw, or another event at it: load and decide
 * again.
 */
export class RevisionConflict extends Error {
  override readonly name = 'RevisionConflict';
  readonly stream: string;
  readonly expected: ExpectedRevision;
  /** Null if the engine does not say, or has another event at the expected revision. */
  readonly actual: ExpectedRevision | null;

  constructor(stream: string, expected: ExpectedRevision, actual: ExpectedRevision | null) {
    super(`${stream}: expected revision ${expected}, found ${actual ?? 'another'}`);
    this.stream = stream;
    this.expected = expected;
    this.actual = actual;
  }
}

/** The condition of an append does not hold. Nothing was appended. */
export class ConditionFailed extends Error {
  override readonly name = 'ConditionFailed';
}

/**
 * The engine can't be reached, did not answer in time, or takes no events from this process. An
 * append may have succeeded: repeat it with the same ids.
 */
export class EventStoreUnavailable extends Error {
  override readonly name: string = 'EventStoreUnavailable';
}

/** The engine answers, but has no room on its disk. It has appended nothing. */
export class EventStoreFull extends EventStoreUnavailable {
  override readonly name = 'EventStoreFull';
}

/**
 * The engine can't be used as it is configured: it is too old, or it rejects the user. A retry
 * does not help. The message says what to do and holds no secret.
 */
export class EventStoreUnusable extends Error {
  override readonly name: string = 'EventStoreUnusable';
}

/**
 * The settings of the event store are wrong, or name another engine than the one of the log. The
 * message holds no secret.
 */
export class EventStoreSettingsError extends EventStoreUnusable {
  override readonly name = 'EventStoreSettingsError';
}

/** The log has no event at the position from which a caller reads. Not every engine notices. */
export class PositionUnknown extends Error {
  override readonly name: string = 'PositionUnknown';
}

/** Positions that contradict the head of a log whose positions have no gaps. */
export interface PositionFault {
  /** Inclusive. */
  from: bigint;
  /** Inclusive. */
  to: bigint;
  /**
   * No event has them, or the events that have them are hidden from readers: beyond the head, before
   * the first position, or with another prefix than the log.
   */
  problem: 'missing' | 'beyond_head' | 'before_start' | 'other_prefix';
}

/** A row that is written in the commit of an append. */
export interface Beside<Item = unknown> {
  item: Item;
  /**
   * Returns the statement that writes the items of appends that share a call. Each has the number
   * of its append: the column `nr` of the CTE `appended`, whose `position` is that of the last
   * event, or null if the append is rejected.
   */
  write(sql: Queryable, items: { nr: number; item: Item }[]): Fragment;
}

/** What must hold when events are appended. The statement of the append compares it. */
export interface Condition {
  value: string;
  /** Returns an expression, a text, that must be `value`. It must not wait for locks. */
  read(sql: Queryable): Fragment;
}

/** How long an append may take. */
export interface AppendLimit {
  /**
   * Milliseconds after which the engine gives up, if that is less than its own time limit. An engine
   * whose appends share calls keeps to its own.
   */
  withinMs?: number | undefined;
}

/** What an append does beside its events, in the same statement. */
export interface AppendOptions extends AppendLimit {
  // biome-ignore lint/suspicious/noExplicitAny: each caller has items of its own
  beside?: Beside<any> | undefined;
  condition?: Condition | undefined;
}

/**
 * The log of one installation. Stream names have no prefix here: an engine adds its own and sees no
 * other streams. Every engine passes the suite in `test/adapters/event-store/contract.ts`.
 */
export interface EventStore {
  readonly engine: Engine;
  /** Milliseconds for which reads can lack the newest events: a node does not know its successor. */
  readonly staleMs: number;
  /**
   * Appends all events or none. An append repeated with the same ids at the same revision returns
   * the result of the first one. Throws RevisionConflict, EventStoreUnavailable (after retries
   * within its time limit; nothing is sent after that), EventStoreUnusable, or RangeError for an
   * empty append.
   */
  append(
    stream: string,
    expected: ExpectedRevision,
    events: NewEvent[],
    limit?: AppendLimit,
  ): Promise<AppendResult>;
  /**
   * Appends as `append`, if a condition holds, and writes a row in the same commit. Only the engine
   * in the installation's own Postgres has it. Also throws ConditionFailed, and the error with which
   * Postgres rejects the row: then nothing is appended.
   */
  appendWith?(
    stream: string,
    expected: ExpectedRevision,
    events: NewEvent[],
    options: AppendOptions,
  ): Promise<AppendResult>;
  /**
   * Returns the events of a stream from `fromRevision` (0) on, oldest first, at most `limit` (all);
   * none if there is no such stream.
   */
  read(stream: string, fromRevision?: number, limit?: number): Promise<StoredEvent[]>;
  /**
   * Yields everything under the prefix, past and future, until the signal aborts; then it returns
   * without an error. Reconnects and continues where it was. A batch may be empty if only the
   * position moved. Reads at the consumer's pace, never far ahead of it. An EventStoreDB throws
   * PositionUnknown if an older copy of the log was restored meanwhile.
   */
  subscribe(options: SubscribeOptions): AsyncIterable<EventBatch>;
  /**
   * Returns the position of the newest event of the whole log; null for an empty log. Throws
   * EventStoreUnavailable.
   */
  head(): Promise<bigint | null>;
  /**
   * When this process last got EventStoreFull, by `performance.now()`. Null if it never did, or has
   * appended since. An EventStoreDB has no such state: it ends if its disk is full.
   */
  fullSince?(): number | null;
  /**
   * Removes whole streams of transfers, which the event at `record` names. Does nothing for a
   * stream that is gone. Throws Error if the record does not name them, and EventStoreUnavailable.
   * Readers may see events of these streams until the call returns, and on an EventStoreDB also
   * later. Nothing may be appended to them any more.
   */
  remove(streams: string[], record: { stream: string; revision: number }): Promise<void>;
  /**
   * Compares the positions of all events with the head, without those of removed streams. Only an
   * engine whose positions have no gaps has it.
   */
  findPositionFaults?(): AsyncIterable<PositionFault>;
  /**
   * Returns how many positions after this one the log has as those of removed streams. Nothing
   * protects that number: compare it with the records of retention.
   */
  countRemoved?(after: bigint): Promise<number>;
  /**
   * Returns a query for the newest events after a position, which is an expression: `position`,
   * `type` and `data` (a text) of at most `limit` events. `type` is null in other streams than
   * these. Only the engine in the installation's own Postgres has it.
   */
  queryNewest?(sql: Queryable, streams: string[], after: Fragment, limit: number): Fragment;
  close(): Promise<void>;
}
