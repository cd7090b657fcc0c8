import type { Transaction } from '../../adapters/postgres/connect.ts';
import { type BatchListed, isRejected } from '../../domain/batches/batch.ts';
import { transferIdOf } from '../../domain/batches/items.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, streamPrefix } from '../../domain/events/streams.ts';
import { flowDecider } from '../../domain/flows/decider.ts';
import {
  type FilesSkipped,
  type FlowEvent,
  type FlowState,
  fileKey,
} from '../../domain/flows/flow.ts';
import { aggregateTable } from '../aggregate-table.ts';
import type { Difference, Projection } from '../projection.ts';

const FLOWS = aggregateTable<FlowState>({
  name: 'flows',
  kind: 'flow',
  key: 'flow_id',
  decider: flowDecider,
  columns: (sql) => sql`
    account_id text not null,
    status text not null,
    created_at timestamptz not null,
    busy boolean not null`,
  row: ({ account_id, status, created_at, open_runs }) => ({
    account_id,
    status,
    created_at,
    // A removed flow ends its open runs.
    busy: status === 'active' || open_runs.length > 0,
  }),
});

/**
 * The read model of flows: one row for each flow, one for each run that is in the log, and one for
 * each version of a file that was taken or skipped. The versions that a run takes are the items of
 * its batch, so it follows batches too. The row of a flow at a revision is never ahead of the rows
 * of its files: a run that decides on both appends at that revision.
 */
export const flowsProjection: Projection = {
  name: 'flows',
  version: 1,
  streams: [streamPrefix('flow'), streamPrefix('batch')],
  tables: ['flows', 'flow_runs', 'flow_files'],

  async create(tx, schema) {
    await FLOWS.create(tx, schema);
    await tx`
      create table ${tx(schema)}.flow_runs (
        run_id text collate "C" primary key,
        flow_id text collate "C" not null,
        batch_id text collate "C",
        reason text not null,
        status text not null,
        error jsonb,
        counts jsonb,
        bytes bigint,
        started_at timestamptz not null,
        ended_at timestamptz,
        position bigint not null
      )`;
    await tx`
      create table ${tx(schema)}.flow_files (
        flow_id text collate "C" not null,
        -- names the URI and the version
        file_key text collate "C" not null,
        source_uri text not null,
        version text not null,
        -- null if the flow skips it
        run_id text collate "C",
        item integer,
        -- null if it cannot become a transfer
        transfer_id text collate "C",
        error jsonb,
        -- how often a run took it: a failed file is taken again
        attempts integer not null,
        taken_at timestamptz not null,
        position bigint not null,
        primary key (flow_id, file_key)
      )`;
    // The fold asks for the run of each batch.
    await tx`create index on ${tx(schema)}.flow_runs (batch_id)`;
  },

  indexes: (sql, schema) => [
    sql`create index on ${sql(schema)}.flows (account_id, created_at desc, flow_id desc)`,
    sql`create index on ${sql(schema)}.flows (flow_id) where busy`,
    sql`create index on ${sql(schema)}.flow_runs (flow_id, run_id desc)`,
    sql`create index on ${sql(schema)}.flow_files (flow_id, position desc, item desc, file_key)`,
  ],

  async apply(tx, schema, events) {
    await FLOWS.apply(tx, schema, events);
    await saveRuns(tx, schema, events);
    await saveSkipped(tx, schema, events);
    await saveTaken(tx, schema, events);
  },

  async differences(tx, live, shadow, position, limit) {
    const found = await FLOWS.differences(tx, live, shadow, position, limit);
    for (const [table, key] of Object.entries({
      flow_runs: tx`run_id`,
      flow_files: tx`flow_id, file_key`,
    }))
      found.push(
        ...(await tx<Difference[]>`
          select concat_ws(' ', ${key}) as key, to_jsonb(l) as live, to_jsonb(s) as log
            from ${tx(live)}.${tx(table)} l
            full join ${tx(shadow)}.${tx(table)} s using (${key})
           where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
             and l is distinct from s
           limit ${limit - found.length}`),
      );
    return found;
  },
};

interface RunChange {
  run_id: string;
  changes: Record<string, unknown>;
  /** Further columns of a run that begins with this event. Null if no run can. */
  first: Record<string, unknown> | null;
}

async function saveRuns(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  for (const { stream, type, data, position } of events) {
    const { kind, id: flow_id } = parseStream(stream);
    const change = kind === 'flow' ? runChangeOf({ type, data } as FlowEvent) : null;
    if (change === null) continue;
    const { run_id, first } = change;
    const changes = columns(tx, { ...change.changes, position });
    if (first === null)
      await tx`update ${tx(schema)}.flow_runs set ${tx(changes)} where run_id = ${run_id}`;
    else
      await tx`
        insert into ${tx(schema)}.flow_runs
        ${tx({ run_id, flow_id, ...columns(tx, first), ...changes })}
        on conflict (run_id) do update set ${tx(changes)}`;
  }
}

function columns(tx: Transaction, values: Record<string, unknown>): Record<string, string> {
  const inJson = ['error', 'counts'];
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      (inJson.includes(name) ? (value === null ? null : tx.json(value as never)) : value) as string,
    ]),
  );
}

/** Returns what an event says about a run. Null if it says nothing. */
function runChangeOf(event: FlowEvent): RunChange | null {
  switch (event.type) {
    case 'flow.run_requested': {
      const { run_id, requested_at: started_at } = event.data;
      const first = { reason: 'request', started_at };
      return { run_id, changes: { status: 'requested' }, first };
    }
    case 'flow.run_started': {
      const { run_id, batch_id, reason, started_at } = event.data;
      return {
        run_id,
        changes: { batch_id, status: 'listing' },
        first: { reason, started_at },
      };
    }
    case 'flow.run_listed':
      return { run_id: event.data.run_id, changes: { status: 'open' }, first: null };
    case 'flow.run_completed': {
      const { run_id, status, counts, bytes, ended_at } = event.data;
      return { run_id, changes: { status, counts, bytes, ended_at }, first: null };
    }
    case 'flow.run_empty': {
      const { run_id, error, ended_at } = event.data;
      const status = error === null ? 'empty' : 'failed';
      return { run_id, changes: { status, error, ended_at }, first: null };
    }
    case 'flow.run_failed': {
      const { run_id, error, failed_at } = event.data;
      // A run that takes files continues with them.
      const first = {
        reason: 'schedule',
        status: 'failed',
        started_at: failed_at,
        ended_at: failed_at,
      };
      return { run_id, changes: { error }, first };
    }
    default:
      return null;
  }
}

interface FileRow {
  flow_id: string | null;
  batch_id: string | null;
  file_key: string;
  source_uri: string;
  version: string;
  item: number | null;
  transfer_id: string | null;
  error: object | null;
  attempts: number;
  taken_at: string;
  position: string;
}

async function saveSkipped(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  const rows = events
    .filter(({ type }) => type === 'flow.files_skipped')
    .flatMap(({ stream, data, position }) => {
      const { files, skipped_at } = data as FilesSkipped;
      return files.map(({ source_uri, version }) => ({
        flow_id: parseStream(stream).id,
        file_key: fileKey(source_uri, version),
        source_uri,
        version,
        attempts: 0,
        taken_at: skipped_at,
        position: String(position),
      }));
    });
  if (rows.length === 0) return;
  await tx`
    insert into ${tx(schema)}.flow_files
      (flow_id, file_key, source_uri, version, attempts, taken_at, position)
    select * from jsonb_to_recordset(${tx.json(rows)})
      as r(flow_id text, file_key text, source_uri text, version text, attempts integer,
           taken_at timestamptz, position bigint)
    on conflict do nothing`;
}

async function saveTaken(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  const rows = new Map<string, FileRow>();
  for (const event of events) {
    if (event.type !== 'batch.listed') continue;
    for (const row of takenIn(event)) {
      const key = `${row.batch_id} ${row.file_key}`;
      rows.set(key, { ...row, attempts: (rows.get(key)?.attempts ?? 0) + 1 });
    }
  }
  if (rows.size === 0) return;
  await tx`
    with taken as (
      select flow_id, file_key, source_uri, version, run_id, item, transfer_id, error,
             sum(attempts) over of_file as attempts, taken_at, r.position,
             row_number() over (of_file order by r.position desc, item desc) as place
        from jsonb_to_recordset(${tx.json([...rows.values()] as never)})
          as r(batch_id text, file_key text, source_uri text, version text, item integer,
               transfer_id text, error jsonb, attempts integer, taken_at timestamptz,
               position bigint)
        join (select batch_id, flow_id, run_id from ${tx(schema)}.flow_runs) runs using (batch_id)
      window of_file as (partition by flow_id, file_key)
    )
    insert into ${tx(schema)}.flow_files as f
      (flow_id, file_key, source_uri, version, run_id, item, transfer_id, error, attempts,
       taken_at, position)
    select flow_id, file_key, source_uri, version, run_id, item, transfer_id, error, attempts,
           taken_at, position
      from taken where place = 1
    on conflict (flow_id, file_key) do update set
      run_id = excluded.run_id, item = excluded.item, transfer_id = excluded.transfer_id,
      error = excluded.error, attempts = f.attempts + excluded.attempts,
      taken_at = excluded.taken_at, position = excluded.position`;
}

/** Returns the files that a page of a flow's batch takes. Other batches have no versions. */
function takenIn({ stream, data, position }: StoredEvent): FileRow[] {
  const { first, items, listed_at } = data as BatchListed;
  const batchId = parseStream(stream).id;
  return items.flatMap((item, i) => {
    const { source_uri, version } = item;
    if (version === undefined) return [];
    return {
      flow_id: null,
      batch_id: batchId,
      file_key: fileKey(source_uri, version),
      source_uri,
      version,
      item: first + i,
      transfer_id: isRejected(item) ? null : transferIdOf(batchId, first + i),
      error: isRejected(item) ? item.error : null,
      attempts: 1,
      taken_at: listed_at,
      position: String(position),
    };
  });
}
