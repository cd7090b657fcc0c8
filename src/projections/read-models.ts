import type { Sql } from '../adapters/postgres/connect.ts';
import type { ProjectionName } from '../commands/deps.ts';
import { catalogProjection } from './catalog.ts';
import { loadCheckpoint, startCheckpoint } from './checkpoint.ts';
import type { Consumer } from './consumer.ts';
import type { Projection } from './projection.ts';
import { transfersProjection } from './transfers.ts';

/** Where the tables lie that queries read. */
export const LIVE_SCHEMA = 'read';

export const PROJECTIONS: Record<ProjectionName, Projection> = {
  transfers: transfersProjection,
  catalog: catalogProjection,
};

/** The consumer that keeps a projection's tables in a schema up to date. */
export function projectionConsumer(projection: Projection, schema: string = LIVE_SCHEMA): Consumer {
  const { name, version, streams } = projection;
  return {
    name: schema === LIVE_SCHEMA ? name : `${name}:${schema}`,
    table: 'read.checkpoints',
    version,
    streams,
    apply: (tx, events) => projection.apply(tx, schema, events),
  };
}

/** Makes the tables of projections that have none yet. Gives the names of those made by an older version, which want a rebuild. */
export async function prepareReadModels(sql: Sql, logId: string): Promise<ProjectionName[]> {
  const outdated: ProjectionName[] = [];
  for (const projection of Object.values(PROJECTIONS)) {
    await sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(hashtextextended(${`waybill prepare ${projection.name}`}, 0))`;
      const checkpoint = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
      if (!checkpoint) {
        await projection.create(tx, LIVE_SCHEMA);
        await startCheckpoint(tx, 'read.checkpoints', projection.name, logId, projection.version);
      } else if (checkpoint.version !== projection.version) outdated.push(projection.name);
    });
  }
  return outdated;
}
