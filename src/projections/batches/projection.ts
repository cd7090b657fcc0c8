import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { BatchListed, BatchState } from '../../domain/batches/batch.ts';
import { batchDecider, isRejected } from '../../domain/batches/batch.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, streamPrefix } from '../../domain/events/streams.ts';
import { aggregateTable } from '../aggregate-table.ts';
import type { Projection } from '../projection.ts';
import { tableDifferences } from '../table-differences.ts';

const BATCHES = aggregateTable<BatchState>({
  name: 'batches',
  kind: 'batch',
  key: 'batch_id',
  decider: batchDecider,
  columns: (sql) => sql`
    account_id text not null,
    status text not null,
    created_at timestamptz not null,
    ended boolean not null`,
  row: ({ account_id, status, created_at, ended_at }) => ({
    account_id,
    status,
    created_at,
    ended: ended_at !== null,
  }),
});

/**
 * The read model of batches: one row for each batch, and one for each rejected item. The items that
 * became transfers are in the read model of transfers, which also counts them by batch.
 */
export const batchesProjection: Projection = {
  name: 'batches',
  version: 1,
  streams: [streamPrefix('batch')],
  tables: ['batches', 'rejected_items'],

  async create(tx, schema) {
    await BATCHES.create(tx, schema);
    await tx`
      create table ${tx(schema)}.rejected_items (
        batch_id text collate "C" not null,
        -- place of the item in the batch
        item integer not null,
        source text not null,
        code text not null,
        message text not null,
        position bigint not null,
        primary key (batch_id, item)
      )`;
  },

  indexes: (sql, schema) => [
    sql`create index on ${sql(schema)}.batches (account_id, created_at desc, batch_id desc)`,
    sql`
      create index on ${sql(schema)}.batches
        (account_id, status, created_at desc, batch_id desc)`,
    // Few batches have not ended, however many there are.
    sql`create index on ${sql(schema)}.batches (batch_id) where not ended`,
  ],

  async apply(tx, schema, events) {
    await BATCHES.apply(tx, schema, events);
    await saveRejected(tx, schema, events);
  },

  differences: tableDifferences({ batches: ['batch_id'], rejected_items: ['batch_id', 'item'] }),
};

async function saveRejected(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  const rows = events.filter(({ type }) => type === 'batch.listed').flatMap(rejectedIn);
  if (rows.length === 0) return;
  await tx`
    insert into ${tx(schema)}.rejected_items (batch_id, item, source, code, message, position)
    select * from jsonb_to_recordset(${tx.json(rows)})
      as r(batch_id text, item integer, source text, code text, message text, position bigint)
    on conflict do nothing`;
}

function rejectedIn({ stream, position, data }: StoredEvent) {
  const { first, items } = data as BatchListed;
  return items.flatMap((item, i) =>
    isRejected(item)
      ? {
          batch_id: parseStream(stream).id,
          item: first + i,
          source: item.source_uri,
          ...item.error,
          position: String(position),
        }
      : [],
  );
}
