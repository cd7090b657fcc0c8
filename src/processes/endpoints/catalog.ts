import type { Sql } from '../../adapters/postgres/connect.ts';
import { type ConfiguredEndpoint, listEndpoints } from '../../projections/catalog/queries.ts';
import { heldSignIns } from './sign-in-holds.ts';

/** The endpoints at the time of a claim. */
export interface Catalog {
  endpoints: ConfiguredEndpoint[];
  /** Ids of endpoints whose sign-in is on hold after a refusal. */
  held: Set<string>;
}

/** Loads what work at the servers of partners begins with. */
export async function loadCatalog(sql: Sql): Promise<Catalog> {
  const [endpoints, held] = await Promise.all([listEndpoints(sql), heldSignIns(sql)]);
  return { endpoints, held };
}
