import type { Sql } from '../../adapters/postgres/connect.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';

export const HOLD_SECONDS = 60;

/** After a refused sign-in nobody signs in to the endpoint for a minute, unless it is given other credentials. */
export async function holdSignIn(sql: Sql, { endpoint_id, credentials_record }: ConfiguredEndpoint): Promise<void> {
  await sql`
    insert into work.sign_in_holds (endpoint_id, credentials_record, until)
    values (${endpoint_id}, ${credentials_record}, now() + ${HOLD_SECONDS} * interval '1 second')
    on conflict (endpoint_id) do update set credentials_record = excluded.credentials_record, until = excluded.until`;
}

/** Endpoints whose sign-in was refused within the last minute, with the credentials that they still have. */
export async function heldSignIns(sql: Sql): Promise<Set<string>> {
  const rows = await sql<{ endpoint_id: string }[]>`
    select h.endpoint_id from work.sign_in_holds h
      join read.endpoints e on e.endpoint_id = h.endpoint_id and e.state ->> 'credentials_record' = h.credentials_record
     where h.until > now()`;
  return new Set(rows.map(({ endpoint_id }) => endpoint_id));
}
