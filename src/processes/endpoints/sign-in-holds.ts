import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog/queries.ts';

export const HOLD_SECONDS = 60;

/**
 * Holds sign-ins to an endpoint for a minute after a rejected one, in all processes. The hold ends
 * at once for new credentials.
 */
export async function holdSignIn(
  sql: Sql,
  { endpoint_id, credentials_record }: ConfiguredEndpoint,
): Promise<void> {
  await sql`
    insert into work.sign_in_holds (endpoint_id, credentials_record, until)
    values (${endpoint_id}, ${credentials_record}, now() + ${HOLD_SECONDS} * interval '1 second')
    on conflict (endpoint_id) do update set
      credentials_record = excluded.credentials_record, until = excluded.until`;
}

/** Selects the holds that last, also of credentials that were replaced since. */
export function currentHolds(sql: Queryable) {
  return sql`
    select endpoint_id, credentials_record, until from work.sign_in_holds where until > now()`;
}

/** Returns the ids of endpoints whose current credentials were rejected within the last minute. */
export async function heldSignIns(sql: Sql): Promise<Set<string>> {
  const rows = await sql<{ endpoint_id: string }[]>`
    select h.endpoint_id from (${currentHolds(sql)}) h
      join read.endpoints e
        on e.endpoint_id = h.endpoint_id
       and e.state ->> 'credentials_record' = h.credentials_record`;
  return new Set(rows.map(({ endpoint_id }) => endpoint_id));
}
