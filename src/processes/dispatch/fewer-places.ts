import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { jobs } from './job-table/jobs.ts';

/** Then as many transfers as `max_connections` allows try again. */
const MINUTES = 10;

/**
 * Limits an endpoint, in all processes, to the transfers that move there without the one that found
 * no connection. Each further one that finds none lowers the limit again.
 */
export async function lowerPlaces(sql: Sql, endpointId: string): Promise<void> {
  await sql`
    insert into work.fewer_places as f (endpoint_id, places, until)
    select ${endpointId}, greatest(1, count(*) - 1), now() + ${MINUTES} * interval '1 minute'
      from (${jobs(sql)}) j
     where claim_id is not null and ${endpointId} in (source_endpoint_id, destination_endpoint_id)
    on conflict (endpoint_id) do update set
      places = case when f.until > now() then greatest(1, least(f.places - 1, excluded.places))
                    else excluded.places end,
      until = excluded.until`;
}

/** Selects the limits that last. `work.claim_transfers` applies them too. */
export function fewerPlaces(sql: Queryable) {
  return sql`select endpoint_id, places from work.fewer_places where until > now()`;
}
