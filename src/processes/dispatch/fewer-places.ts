import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { jobs } from './job-table/jobs.ts';

/**
 * Limits an endpoint, in all processes, to the transfers that move there without the one that found
 * no connection. Each further one that finds none lowers the limit again. `work.accepted_places`
 * raises it by one a minute. Returns false if no other transfer moves there: then no transfer would
 * make room for this one.
 */
export async function lowerPlaces(sql: Sql, endpointId: string): Promise<boolean> {
  const lowered = await sql`
    insert into work.fewer_places as f (endpoint_id, places, until)
    select ${endpointId}, count(*) - 1, now() + interval '10 minutes'
      from (${jobs(sql)}) j
     where claim_id is not null and ${endpointId} in (source_endpoint_id, destination_endpoint_id)
    having count(*) > 1
    on conflict (endpoint_id) do update set
      places = greatest(1, least(work.accepted_places(f.places, f.until) - 1, excluded.places)),
      until = excluded.until
    returning places`;
  return lowered.length > 0;
}

/**
 * Returns whether other processes have transfers of an endpoint. With `withBytes`, only those count
 * whose bytes have moved: their processes have connections, and do not only try.
 */
export async function movesElsewhere(
  sql: Sql,
  endpointId: string,
  processId: string,
  { withBytes }: { withBytes: boolean },
): Promise<boolean> {
  const [found] = await sql`
    select from (${jobs(sql)}) j
     where claim_id is not null and claimed_by <> ${processId}
       and (speed_bps is not null or not ${withBytes})
       and ${endpointId} in (source_endpoint_id, destination_endpoint_id) limit 1`;
  return found !== undefined;
}

/** Selects the limits that last. `work.claim_transfers` applies them too. */
export function acceptedPlaces(sql: Queryable) {
  return sql`
    select endpoint_id, work.accepted_places(places, until) as places from work.fewer_places`;
}
