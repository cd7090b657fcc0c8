import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';
import { FILES_PER_CONNECTION } from '../../domain/protocols/index.ts';
import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';
import { acceptedPlaces } from './fewer-places.ts';
import { jobs } from './job-table/jobs.ts';

/**
 * Returns CTEs about endpoints, as a claim sees them: `claims` has all claims, `places` how many
 * transfers may use each endpoint and how many do, `closed` the endpoints without a free place.
 */
export function placesOfEndpoints(sql: Queryable): Fragment {
  return sql`
    claims as materialized (
      select account_id, claimed_by, source_endpoint_id, destination_endpoint_id,
             coalesce(size_bytes, 0) <= ${SMALL_FILE_BYTES}::bigint as small
        from (${jobs(sql)}) j where claim_id is not null
    ),
    usage as (
      select endpoint_id, count(*)::integer as in_use, bool_and(small) as small
        from claims, lateral (
          select distinct unnest(array[source_endpoint_id, destination_endpoint_id]) as endpoint_id
        ) sides
       group by endpoint_id
    ),
    places as materialized (
      select endpoint_id, paused, coalesce(in_use, 0) as in_use,
             -- Only small files share connections, and only while no large one moves there.
             least(f.places, max_connections * case when in_use > max_connections and small
               then coalesce((${JSON.stringify(FILES_PER_CONNECTION)}::text::jsonb
                              ->> (state #>> '{settings,protocol}'))::integer, 1)
               else 1 end) as places
        from read.endpoints left join usage using (endpoint_id)
             left join (${acceptedPlaces(sql)}) f using (endpoint_id)
       where not removed
    ),
    closed as materialized (
      select coalesce(array_agg(endpoint_id), '{}') as ids
        from places where paused or in_use >= places
    )`;
}
