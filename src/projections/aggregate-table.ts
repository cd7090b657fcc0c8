import type { Queryable, Transaction } from '../adapters/postgres/connect.ts';
import type { Fold } from '../domain/events/decider.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import {
  aggregateIdOf,
  parseStream,
  type StreamKind,
  streamName,
} from '../domain/events/streams.ts';
import { type Folded, foldBatch } from './fold.ts';

interface Definition<State extends { status: string }> {
  name: string;
  /** Each stream of this kind has a row, whose key is the id in the stream's name. */
  kind: StreamKind;
  /** Name of the key column. */
  key: string;
  decider: Fold<State>;
  /** Declares the columns that `row` returns, for `create table`. */
  columns(sql: Queryable): ReturnType<Queryable>;
  /** Returns the columns that queries search by, besides the key. */
  row(
    state: Exclude<State, { status: 'none' }>,
  ): Record<string, string | string[] | number | boolean | null>;
}

/** A table with one row for each stream of an aggregate: its state, and columns for queries. */
export interface AggregateTable {
  name: string;
  kind: StreamKind;
  /** Name of the key column. */
  key: string;
  create(tx: Transaction, schema: string): Promise<void>;
  /** Folds the events of its own streams and ignores others. */
  apply(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void>;
}

export function aggregateTable<State extends { status: string }>(
  definition: Definition<State>,
): AggregateTable {
  const { name, kind, key, decider, columns, row } = definition;

  return {
    name,
    kind,
    key,

    async create(tx, schema) {
      await tx`
        create table ${tx(schema)}.${tx(name)} (
          ${tx(key)} text primary key,
          ${columns(tx)},
          revision integer not null,
          position bigint not null,
          state jsonb not null
        )`;
    },

    async apply(tx, schema, events) {
      const own = events.filter(({ stream }) => parseStream(stream).kind === kind);
      if (own.length === 0) return;
      const keys = [...new Set(own.map(aggregateIdOf))];
      const rows = await tx<({ key: string } & Folded<State>)[]>`
        select ${tx(key)} as key, revision, position, state from ${tx(schema)}.${tx(name)}
         where ${tx(key)} = any(${keys})`;
      const known = new Map(rows.map(({ key, ...folded }) => [streamName(kind, key), folded]));
      for (const [stream, { state, revision, position }] of foldBatch(own, known, decider)) {
        const searchable = row(state as Exclude<State, { status: 'none' }>);
        const changes = {
          ...searchable,
          revision,
          position: position as never,
          state: tx.json(state as never),
        };
        await tx`
          insert into ${tx(schema)}.${tx(name)}
          ${tx({ [key]: parseStream(stream).id, ...changes })}
          on conflict (${tx(key)}) do update set ${tx(changes)}`;
      }
    },
  };
}
