import { streamPrefix } from '../../domain/events/streams.ts';
import { flowDecider } from '../../domain/flows/decider.ts';
import type { FlowState } from '../../domain/flows/flow.ts';
import { aggregateTable } from '../aggregate-table.ts';
import type { Projection } from '../projection.ts';
import { tableDifferences } from '../table-differences.ts';
import { saveSkipped, saveTakenFiles } from './save-files.ts';
import { saveRuns } from './save-runs.ts';

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
    await saveTakenFiles(tx, schema, events);
  },

  differences: tableDifferences({
    flows: ['flow_id'],
    flow_runs: ['run_id'],
    flow_files: ['flow_id', 'file_key'],
  }),
};
