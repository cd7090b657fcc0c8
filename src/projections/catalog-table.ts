import type { Queryable, Transaction } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/event.ts';
import { type Folded, foldBatch } from './fold.ts';

interface Definition<State extends { status: string }> {
  name: string;
  /** Start of the names of the streams that it shows; the row's key follows. */
  streams: string;
  /** The column that holds the key. */
  key: string;
  decider: { initialState(): State; evolve(state: State, event: StoredEvent): State };
  /** What `row` gives, as `create table` has it. */
  columns(sql: Queryable): ReturnType<Queryable>;
  /** What queries look for beside the key. */
  row(state: Exclude<State, { status: 'none' }>): Record<string, string | string[] | number | boolean | null>;
}

/** A table with a row for every stream of an aggregate: its state, and columns to look for it by. */
export interface CatalogTable {
  name: string;
  streams: string;
  create(tx: Transaction, schema: string): Promise<void>;
  /** Folds the events of its own streams. */
  apply(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void>;
  /** As a projection has it. */
  differences(tx: Transaction, live: string, shadow: string, position: bigint, limit: number): Promise<string[]>;
}

export function catalogTable<State extends { status: string }>(definition: Definition<State>): CatalogTable {
  const { name, streams, key, decider, columns, row } = definition;

  return {
    name,
    streams,

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
      const own = events.filter(({ stream }) => stream.startsWith(streams));
      if (own.length === 0) return;
      const keys = [...new Set(own.map(({ stream }) => stream.slice(streams.length)))];
      const rows = await tx<({ key: string } & Folded<State>)[]>`
        select ${tx(key)} as key, revision, position, state from ${tx(schema)}.${tx(name)} where ${tx(key)} = any(${keys})`;
      const known = new Map(rows.map(({ key, ...folded }) => [streams + key, folded]));
      for (const [stream, { state, revision, position }] of foldBatch(own, known, decider)) {
        const shown = row(state as Exclude<State, { status: 'none' }>);
        const changes = { ...shown, revision, position: position as never, state: tx.json(state as never) };
        await tx`
          insert into ${tx(schema)}.${tx(name)} ${tx({ [key]: stream.slice(streams.length), ...changes })}
          on conflict (${tx(key)}) do update set ${tx(changes)}`;
      }
    },

    async differences(tx, live, shadow, position, limit) {
      const rows = await tx<{ key: string }[]>`
        select ${tx(key)} as key from ${tx(live)}.${tx(name)} l full join ${tx(shadow)}.${tx(name)} s using (${tx(key)})
         where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position} and l is distinct from s
         limit ${limit}`;
      return rows.map(({ key }) => key);
    },
  };
}
