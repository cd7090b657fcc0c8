import type { Transaction } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/event.ts';
import type { Transfer, TransferState } from '../domain/transfer.ts';
import * as transfer from '../domain/transfer.ts';
import { type Folded, foldBatch } from './fold.ts';
import type { Projection } from './projection.ts';

const STREAMS = 'transfer-';

/** List, detail and counts of transfers: one row a transfer, how many there are of each account, status and hour, and of each status in all. */
export const transfersProjection: Projection = {
  name: 'transfers',
  version: 3,
  streams: [STREAMS],
  tables: ['transfers', 'transfer_counts', 'transfer_totals'],

  async create(tx, schema) {
    await tx`
      create table ${tx(schema)}.transfers (
        transfer_id text collate "C" primary key,
        account_id text not null,
        status text not null,
        created_at timestamptz not null,
        destination text collate "C" not null,
        revision integer not null,
        position bigint not null,
        -- json, not jsonb: written often and looked into seldom, it costs half as much
        state json not null
      )`;
    await tx`
      create table ${tx(schema)}.transfer_counts (
        account_id text not null,
        status text not null,
        hour timestamptz not null,
        transfers bigint not null,
        primary key (account_id, hour, status)
      )`;
    // Of years and a thousand accounts there are millions of counts: too many to add up every minute.
    await tx`create table ${tx(schema)}.transfer_totals (status text primary key, transfers bigint not null)`;
  },

  async createIndexes(tx, schema) {
    await tx`create index on ${tx(schema)}.transfers (account_id, created_at desc, transfer_id desc)`;
    await tx`create index on ${tx(schema)}.transfers (account_id, status, created_at desc, transfer_id desc)`;
    await tx`create index on ${tx(schema)}.transfers (account_id, destination)`;
    // What is open now, which each new transfer asks: few rows, of however many hours have passed.
    await tx`create index on ${tx(schema)}.transfer_counts (account_id) where status in ('pending', 'queued', 'in_progress') and transfers <> 0`;
  },

  async apply(tx, schema, events) {
    const known = await load(tx, schema, events);
    const changed = foldBatch<TransferState>(events, known, transfer) as Map<string, Folded<Transfer>>;
    if (changed.size === 0) return;
    await save(tx, schema, [...changed.values()], countChanges(known, changed));
  },

  async differences(tx, live, shadow, position, limit) {
    // In place of a state its digest: neither side of the join has to go to disk.
    const digests = (of: string) => tx`
      select transfer_id, account_id, status, created_at, destination, revision, position, md5(state::text) as digest from ${tx(of)}.transfers`;
    const stateIn = (of: string) => tx`(select state::jsonb from ${tx(of)}.transfers t where t.transfer_id = d.transfer_id)`;
    const rows = await tx<{ key: string }[]>`
      with counted as materialized (
        select account_id, status, date_trunc('hour', created_at) as hour, count(*) as transfers from ${tx(live)}.transfers group by 1, 2, 3
      ),
      differing as materialized (
        select transfer_id, (to_jsonb(l) - 'digest') is distinct from (to_jsonb(s) - 'digest') as in_columns
          from (${digests(live)}) l full join (${digests(shadow)}) s using (transfer_id)
         where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position} and l is distinct from s
      )
      -- the order of keys is no difference
      select transfer_id as key from differing d where in_columns or ${stateIn(live)} is distinct from ${stateIn(shadow)}
      union all
      select concat_ws(' ', 'count', account_id, status, hour)
        from counted full join (select * from ${tx(live)}.transfer_counts where transfers <> 0) kept using (account_id, status, hour)
       where counted.transfers is distinct from kept.transfers
      union all
      select concat_ws(' ', 'total', status)
        from (select status, sum(transfers) as transfers from counted group by 1) summed
        full join (select * from ${tx(live)}.transfer_totals where transfers <> 0) kept using (status)
       where summed.transfers is distinct from kept.transfers
      limit ${limit}`;
    return rows.map(({ key }) => key);
  },
};

interface Row {
  transfer_id: string;
  revision: number;
  position: bigint;
  state: Transfer;
}

async function load(tx: Transaction, schema: string, events: StoredEvent[]): Promise<Map<string, Folded<TransferState>>> {
  // A stream whose first event is in the batch has no row yet, unless the batch is given a second time.
  const ids = [...new Set(events.map(({ stream }) => stream.slice(STREAMS.length)))];
  // An older version's table has jsonb: no prepared statement survives a change of type when the new one takes over.
  const rows = await tx<Row[]>`
    select transfer_id, revision, position, state::json as state from ${tx(schema)}.transfers where transfer_id = any(${ids})`;
  return new Map(rows.map(({ transfer_id, ...folded }) => [STREAMS + transfer_id, folded]));
}

async function save(tx: Transaction, schema: string, changed: Folded<Transfer>[], counts: CountChange[]): Promise<void> {
  const facts = changed.map(({ state }) => state.facts);
  // A line for each: in an array of texts every quote of a document would have to be masked, and unmasked again.
  const states = changed.map(({ state }) => JSON.stringify(state)).join('\n');
  await tx`
    with saved as (
      insert into ${tx(schema)}.transfers (transfer_id, account_id, status, created_at, destination, revision, position, state)
      select transfer_id, account_id, status, created_at::timestamptz, destination, revision, position, state::json
        from rows from (
          unnest(
            ${facts.map(({ transfer_id }) => transfer_id)}::text[],
            ${facts.map(({ account_id }) => account_id)}::text[],
            ${changed.map(({ state }) => state.status)}::text[],
            ${facts.map(({ created_at }) => created_at)}::text[],
            ${facts.map(({ destination }) => destination)}::text[],
            ${changed.map(({ revision }) => revision)}::integer[],
            ${changed.map(({ position }) => String(position))}::bigint[]),
          string_to_table(${states}, E'\n')
        ) as c(transfer_id, account_id, status, created_at, destination, revision, position, state)
      on conflict (transfer_id) do update set
        status = excluded.status, revision = excluded.revision, position = excluded.position, state = excluded.state
    ),
    changes as (
      select * from unnest(
        ${counts.map(({ account }) => account)}::text[],
        ${counts.map(({ status }) => status)}::text[],
        ${counts.map(({ hour }) => hour)}::text[]::timestamptz[],
        ${counts.map(({ by }) => by)}::bigint[]) as c(account_id, status, hour, transfers)
    ),
    counted as (
      insert into ${tx(schema)}.transfer_counts as c (account_id, status, hour, transfers) select * from changes
      on conflict (account_id, hour, status) do update set transfers = c.transfers + excluded.transfers
    )
    insert into ${tx(schema)}.transfer_totals as t (status, transfers) select status, sum(transfers) from changes group by status
    on conflict (status) do update set transfers = t.transfers + excluded.transfers`;
}

interface CountChange {
  account: string;
  status: string;
  /** Its first instant, ISO 8601. */
  hour: string;
  by: number;
}

function countChanges(before: Map<string, Folded<TransferState>>, after: Map<string, Folded<Transfer>>): CountChange[] {
  const changes = new Map<string, CountChange>();
  const add = (state: Transfer, by: number) => {
    const { account_id, created_at } = state.facts;
    const hour = `${created_at.slice(0, 13)}:00:00.000Z`;
    const key = JSON.stringify([account_id, state.status, hour]);
    const change = changes.get(key) ?? { account: account_id, status: state.status, hour, by: 0 };
    changes.set(key, { ...change, by: change.by + by });
  };
  for (const [stream, { state }] of after) {
    const old = before.get(stream)?.state;
    if (old && old.status !== 'none') add(old, -1);
    add(state, 1);
  }
  return [...changes.values()].filter(({ by }) => by !== 0);
}
