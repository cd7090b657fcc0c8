/*
 * What a consumer of the log is. run-consumer.ts runs it.
 */
import type { Logger } from 'pino';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { Locks } from '../adapters/postgres/locks.ts';
import { isStoreUnavailable } from '../adapters/unavailable.ts';
import { pause } from '../concurrency/pause.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import type { CheckpointTable, Writes } from './checkpoint.ts';
import type { RemovedLeaves } from './retention/removed-leaves.ts';

/** Follows the log, and saves its rows and its checkpoint in one transaction. */
export type Consumer = ApplyingConsumer | PreparingConsumer;

interface Follower {
  name: string;
  table: CheckpointTable;
  version: number;
  /** Prefixes of the names of the streams that it reads. */
  streams: string[];
  /** True if it gets events as they are stored. Others get them upcast. */
  asStored?: boolean;
  /**
   * Pause after each batch of a busy moment, in milliseconds. Events that arrive in the pause form
   * one batch. No pause by default.
   */
  pauseMs?: number;
  /**
   * Pause after every batch with events, in milliseconds, also of a quiet moment. A reader of this
   * process ends it. A reader of another process waits that much longer.
   */
  gatherMs?: number;
  /**
   * True if it also adds the leaves of events that left the log. Its batches are smaller while
   * there are further ones.
   */
  addsRemoved?: boolean;
  /** Maximum number of events in a batch. 1,000 by default. */
  batchSize?: number;
}

export interface ApplyingConsumer extends Follower {
  /** `removed` has what left the log between these events; nothing did by default. */
  apply(tx: Transaction, events: StoredEvent[], removed?: RemovedLeaves): Promise<void>;
  /**
   * Returns what writes a batch in the statement that moves the checkpoint: one round trip in place
   * of the four of a transaction. Returns null if the batch needs `apply`. Rows that it reads are
   * still valid when the statement runs: they change only with the checkpoint, and new tables come
   * with another generation of it.
   */
  inOneStatement?(sql: Sql, events: StoredEvent[], removed?: RemovedLeaves): Promise<Writes | null>;
}

export interface PreparingConsumer extends Follower {
  /**
   * Does the slow part of a batch before its transaction begins: Postgres ends a transaction that
   * idles. Rows that it reads of its own tables are still valid in the transaction. They change
   * only with the checkpoint, which the transaction compares first. If the batch before is `ahead`,
   * it may still be unsaved.
   */
  prepare(sql: Sql, events: StoredEvent[], removed?: RemovedLeaves): Promise<PreparedBatch>;
}

export type Apply = (tx: Transaction) => Promise<void>;

/**
 * What saves a batch: writes in the statement that moves the checkpoint, or a transaction. With
 * both, the transaction is for rows that the statement takes for new and that exist.
 */
export type PreparedBatch = (
  | { writes: Writes; apply?: Apply }
  | { writes?: null; apply: Apply }
) & {
  /** True if the next batch can be prepared before this one is saved. */
  ahead?: boolean;
  /** The batch is saved after it resolves. It never rejects. */
  ready?: Promise<void>;
  /**
   * Called once: the batch was saved, or that failed. Then its events come again, unless only the
   * answer of Postgres was lost.
   */
  afterSave?(saved: boolean): void;
  /** In place of the consumer's own `gatherMs`. */
  gatherMs?: number;
};

export interface ConsumerDeps {
  store: EventStore;
  sql: Sql;
  locks: Locks;
  logId: string;
  logger: Logger;
  /** How consumers pause. By default, nothing ends a pause but its time. */
  pause?: Pause;
}

/** Resolves after `ms` milliseconds, when the signal aborts, or when a reader needs the consumer. */
export type Pause = (consumer: string, ms: number, signal: AbortSignal) => Promise<void>;

/** Pauses without a reader that ends it. */
export const sleepUntil: Pause = (_, ms, signal) => pause(ms, signal);

export type ConsumerStatus =
  | { state: 'stand_by' }
  | { state: 'active'; position: bigint }
  /**
   * An older version made its tables. `share` of the log is read. Null if another process rebuilds.
   */
  | { state: 'rebuilding'; share: number | null }
  /** A newer version made its tables. This process does not write to them. */
  | { state: 'left_to_newer' }
  /**
   * It has stopped. `error` says why and, for a fold error, at which event. Readiness shows it to
   * everybody: see `publicReason`.
   */
  | { state: 'failed'; error: string };

/**
 * Returns the text of an error without what stores and the system say: that may name addresses,
 * users and values.
 */
export function publicReason(error: unknown): string {
  if (isStoreUnavailable(error)) return 'a store does not answer: the log of the service says why';
  return (error as { code?: unknown }).code === undefined
    ? (error as Error).message
    : 'an unexpected error: the log of the service has it';
}

/** Names the advisory lock of the process that runs a consumer. */
export function lockOf(consumer: string): string {
  return `consumer:${consumer}`;
}
