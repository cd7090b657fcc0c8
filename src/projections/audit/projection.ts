/*
 * The read model of the audit log: one row for each event that an administrator or a client caused.
 * `isAudited` says which. Each transfer has many more events, so the log itself is too long to
 * filter.
 *
 * The rows of a transfer that leaves the log go with it.
 *
 * A row has the ids of its subject and actor. Queries add the names (queries.ts).
 */
import { AUDIT_KINDS, isAudited, subjectOf } from '../../domain/audit.ts';
import { type StreamKind, streamPrefix } from '../../domain/events/streams.ts';
import {
  isRetentionRecorded,
  type RetentionRecorded,
  retentionRecords,
} from '../../domain/retention.ts';
import type { Difference, Projection } from '../projection.ts';

export const auditProjection: Projection = {
  name: 'audit',
  version: 3,
  streams: (Object.keys(AUDIT_KINDS) as StreamKind[]).map(streamPrefix),
  tables: ['audit'],
  // No request waits for it, and most batches of a busy log have nothing for it.
  gatherMs: 250,

  async create(tx, schema) {
    await tx`
      create table ${tx(schema)}.audit (
        position bigint not null,
        revision integer not null,
        event_id text collate "C" not null,
        type text collate "C" not null,
        kind text collate "C" not null,
        stream text collate "C" not null,
        subject_id text collate "C" not null,
        account_id text collate "C",
        actor text collate "C" not null,
        client_address text collate "C",
        occurred_at timestamptz not null,
        data jsonb not null,
        -- events of one append may share a position in an EventStoreDB
        primary key (position, revision)
      )`;
  },

  /** Each filter has an index in the order of the list. */
  indexes: (sql, schema) => [
    sql`create index on ${sql(schema)}.audit (occurred_at, position, revision)`,
    ...['type', 'kind', 'subject_id', 'actor'].map(
      (column) => sql`
        create index on ${sql(schema)}.audit (${sql(column)}, occurred_at, position, revision)`,
    ),
  ],

  async apply(tx, schema, events) {
    const rows = events.filter(isAudited).map((event) => {
      const { kind, id } = subjectOf(event);
      const { actor, account_id, client_address = null, occurred_at } = event.metadata;
      return {
        position: String(event.position),
        revision: event.revision,
        event_id: event.id,
        type: event.type,
        kind,
        stream: event.stream,
        subject_id: id,
        account_id,
        actor,
        client_address,
        occurred_at,
        data: isRetentionRecorded(event)
          ? summaryOf(event.data)
          : withoutHash(event.data as object),
      };
    });
    if (rows.length > 0)
      await tx`
      insert into ${tx(schema)}.audit
        (position, revision, event_id, type, kind, stream, subject_id, account_id, actor,
         client_address, occurred_at, data)
      select * from jsonb_to_recordset(${tx.json(rows as never)})
        as r(position bigint, revision integer, event_id text, type text, kind text,
             stream text, subject_id text, account_id text, actor text, client_address text,
             occurred_at timestamptz, data jsonb)
      on conflict do nothing`;
    const gone = retentionRecords(events).flatMap(({ data }) => data.transfers);
    if (gone.length > 0)
      await tx`
        delete from ${tx(schema)}.audit
         where kind = 'transfer' and subject_id = any(${gone.map(({ transfer_id }) => transfer_id)})`;
  },

  async differences(tx, { live, shadow, position, limit }) {
    return tx<Difference[]>`
      select coalesce(l.event_id, s.event_id) as key, to_jsonb(l) as live, to_jsonb(s) as log
        from ${tx(live)}.audit l full join ${tx(shadow)}.audit s using (position, revision)
       where position <= ${position} and l is distinct from s
       limit ${limit}`;
  },
};

/** Counts what leaves the log: the record itself names each event. */
function summaryOf({ transfers, ...data }: RetentionRecorded): object {
  const events = transfers.reduce((sum, each) => sum + each.events.length, 0);
  return { ...data, transfers: transfers.length, events };
}

/** Leaves out the hash of an API key: readers of this log have no use for it. */
function withoutHash(data: object): object {
  return Object.fromEntries(Object.entries(data).filter(([name]) => name !== 'sha256'));
}
