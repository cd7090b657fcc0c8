import type { Queryable, Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { ProjectionName } from '../domain/projection-name.ts';
import { auditProjection } from './audit/projection.ts';
import { batchesProjection } from './batches/projection.ts';
import { catalogProjection } from './catalog/projection.ts';
import { loadCheckpoint, startCheckpoint } from './checkpoint.ts';
import type { Consumer } from './consumer.ts';
import { flowsProjection } from './flows/projection.ts';
import type { Projection } from './projection.ts';
import { proofProjection } from './proof/projection.ts';
import { transfersProjection } from './transfers/projection.ts';
import { transferSearchProjection } from './transfers/search/projection.ts';

/** Projections whose tables have another version than this one: which made them. */
export type OtherVersions = Map<ProjectionName, 'older' | 'newer'>;

/** The schema of the tables that queries read. */
export const LIVE_SCHEMA = 'read';

export const PROJECTIONS: Record<ProjectionName, Projection> = {
  transfers: transfersProjection,
  batches: batchesProjection,
  flows: flowsProjection,
  catalog: catalogProjection,
  transfer_search: transferSearchProjection,
  audit: auditProjection,
  proof: proofProjection,
};

/** Creates the consumer that keeps a projection's tables in a schema up to date. */
export function projectionConsumer(projection: Projection, schema: string = LIVE_SCHEMA): Consumer {
  const { name, version, streams, asStored = false } = projection;
  const { gatherMs, addsRemoved = false, prepare } = projection;
  const follower = {
    name: schema === LIVE_SCHEMA ? name : `${name}:${schema}`,
    table: 'read.checkpoints' as const,
    version,
    streams,
    asStored,
    addsRemoved,
    ...(gatherMs === undefined ? {} : { gatherMs }),
  };
  if (prepare)
    return {
      ...follower,
      prepare: async (sql, events, removed) => ({
        apply: await prepare(sql, schema, events, removed),
      }),
    };
  return {
    ...follower,
    apply: (tx, events, removed) => projection.apply(tx, schema, events, removed),
    inOneStatement: async (sql, events, removed) =>
      (await projection.inOneStatement?.(sql, schema, events, removed)) ?? null,
  };
}

/**
 * Creates what the schema `read` lacks. All of it may be dropped: the consumers then fill it again
 * from the log. Returns the projections whose tables have another version. Older ones need a
 * rebuild.
 */
export async function prepareReadModels(sql: Sql, logId: string): Promise<OtherVersions> {
  return (await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('waybill read models', 0))`;
    await createCheckpoints(tx);
    const others: OtherVersions = new Map();
    for (const projection of Object.values(PROJECTIONS)) {
      const { name, version } = projection;
      const checkpoint = await loadCheckpoint(tx, 'read.checkpoints', name);
      // The version decides first: tables of another version serve until their rebuild is done,
      // even if some are missing.
      if (checkpoint && checkpoint.version !== version)
        others.set(name, checkpoint.version < version ? 'older' : 'newer');
      else if (!checkpoint || !(await hasTables(tx, projection)))
        await recreate(tx, projection, logId);
    }
    return others;
  })) as OtherVersions;
}

/** Drops all read models. The next start creates them again, and its consumers fill them. */
export async function forgetReadModels(sql: Queryable): Promise<void> {
  await sql`drop schema ${sql(LIVE_SCHEMA)} cascade`;
}

/**
 * Creates the table of checkpoints. A rebuild's checkpoint is `NAME:rebuild` until it takes over.
 */
async function createCheckpoints(tx: Transaction): Promise<void> {
  await tx`create schema if not exists read`;
  await tx`
    create table if not exists read.checkpoints (
      name text primary key,
      -- the version of the projection's tables
      version integer not null,
      log_id text not null,
      position bigint not null,
      -- the last processed event: identifies a restored older log; null before the first
      event_id text,
      event_stream text,
      event_revision integer,
      updated_at timestamptz not null default now(),
      -- another one for the tables of a rebuild
      generation uuid not null default gen_random_uuid()
    )`;
  // Looks first: the statement would lock the table at each start.
  const [made] = await tx`
    select from pg_attribute
     where attrelid = 'read.checkpoints'::regclass and attname = 'generation'`;
  if (!made)
    await tx`
      alter table read.checkpoints
        add column generation uuid not null default gen_random_uuid()`;
}

async function hasTables(tx: Transaction, { tables }: Projection): Promise<boolean> {
  const names = tables.map((table) => `${LIVE_SCHEMA}.${table}`);
  const [row] = await tx<
    { all: boolean }[]
  >`select bool_and(to_regclass(name) is not null) as all from unnest(${names}::text[]) as name`;
  return row?.all ?? false;
}

async function recreate(tx: Transaction, projection: Projection, logId: string): Promise<void> {
  for (const table of projection.tables)
    await tx`drop table if exists ${tx(LIVE_SCHEMA)}.${tx(table)}`;
  await tx`delete from read.checkpoints where name = ${projection.name}`;
  await projection.create(tx, LIVE_SCHEMA);
  for (const index of projection.indexes?.(tx, LIVE_SCHEMA) ?? []) await index;
  await startCheckpoint(tx, 'read.checkpoints', projection.name, logId, projection.version);
}
