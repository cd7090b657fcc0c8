import type { Transaction } from '../adapters/postgres/connect.ts';
import type { ProjectionName } from '../commands/deps.ts';
import type { StoredEvent } from '../domain/event.ts';

/** A read model: its tables, and how a batch of events changes them. */
export interface Projection {
  name: ProjectionName;
  /** Raised with every change to the tables or the fold: an older one is rebuilt at the next start. */
  version: number;
  /** Starts of the names of the streams that it reads. */
  streams: string[];
  tables: string[];
  /** Makes the tables, empty, in a schema. */
  create(tx: Transaction, schema: string): Promise<void>;
  /** Makes the indexes that only queries need: a rebuild does so when the tables are full. */
  createIndexes?(tx: Transaction, schema: string): Promise<void>;
  /** Folds a batch, oldest first. What was folded before changes nothing. Throws at an event that can't be folded. */
  apply(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void>;
  /**
   * Keys of rows that differ between the tables of two schemas, as of a position that both have
   * reached: rows that have changed since in either are left out. At most `limit` of them.
   */
  differences(tx: Transaction, live: string, shadow: string, position: bigint, limit: number): Promise<string[]>;
}
