import type { SubscribeOptions } from '../adapters/event-store/port.ts';
import type { Fragment, Queryable, Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import type { ProjectionName } from '../domain/projection-name.ts';
import type { Writes } from './checkpoint.ts';
import type { Apply } from './consumer.ts';
import type { RemovedLeaves } from './retention/removed-leaves.ts';

/** A row that differs between a live table and the log. */
export interface Difference {
  key: string;
  /** The row as the live table has it; null if the table lacks it, or does not show it. */
  live?: unknown;
  /** The row as it follows from the log. */
  log?: unknown;
}

/** What is compared: the tables of two schemas, as of a position that both have reached. */
export interface Compared {
  live: string;
  shadow: string;
  /** Rows that changed in either schema since then are left out. */
  position: bigint;
  /** Maximum number of rows to return. */
  limit: number;
  /**
   * The transfers that records of retention after `position` name: only one of both may have
   * forgotten them. None by default.
   */
  leaving?: string[];
}

/** Folds a batch of a rebuild: `createFill` of a projection. */
export type Fill = (events: StoredEvent[], removed: RemovedLeaves) => Promise<Writes | null>;

/** A read model: its tables, and how a batch of events changes them. */
export interface Projection {
  name: ProjectionName;
  /**
   * Raise it with every change to the tables or the fold. The next start rebuilds tables of another
   * version.
   */
  version: number;
  /** Prefixes of the names of the streams that it reads. */
  streams: string[];
  /** True if it folds events as they are stored. Others get them upcast. */
  asStored?: boolean;
  /** What a rebuild reads of events: as in `SubscribeOptions`. */
  only?: SubscribeOptions['only'];
  /** As for a consumer. */
  addsRemoved?: boolean;
  /** Partitions of these tables need no entry. */
  tables: string[];
  /** As for a consumer: delays what a busy log shows, so that it costs fewer transactions. */
  gatherMs?: number;
  /** Creates the empty tables in a schema. */
  create(tx: Transaction, schema: string): Promise<void>;
  /**
   * Returns the statements that create the indexes that only queries need, the longest first. A
   * rebuild runs them when the tables are full, in any order.
   */
  indexes?(sql: Queryable, schema: string): Fragment[];
  /**
   * Folds a batch, oldest event first. Ignores events that it has folded before. Throws at an event
   * that cannot be folded. `removed` has what left the log between these events; nothing did by
   * default.
   */
  apply(
    tx: Transaction,
    schema: string,
    events: StoredEvent[],
    removed?: RemovedLeaves,
  ): Promise<void>;
  /**
   * As `apply`, with its slow part before the transaction begins: see `PreparingConsumer`. A
   * take-over, which is one transaction, uses `apply`.
   */
  prepare?(
    sql: Sql,
    schema: string,
    events: StoredEvent[],
    removed?: RemovedLeaves,
  ): Promise<Apply>;
  /** As for a consumer: `inOneStatement` of `ApplyingConsumer`. */
  inOneStatement?(
    sql: Sql,
    schema: string,
    events: StoredEvent[],
    removed?: RemovedLeaves,
  ): Promise<Writes | null>;
  /**
   * Creates a function for a rebuild, which calls it with one batch after the other. It folds a
   * batch while at most the two before are not written yet, and returns what writes it; null if the
   * batch needs `apply`, which must end before the next call.
   */
  createFill?(sql: Sql, schema: string): Fill;
  /** Returns the rows that differ: `tableDifferences` for most tables. */
  differences(tx: Transaction, compared: Compared): Promise<Difference[]>;
}
