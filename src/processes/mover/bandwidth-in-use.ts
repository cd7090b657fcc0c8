import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Bandwidth } from '../../domain/endpoints/bandwidth.ts';
import { jobs } from '../dispatch/job-table/jobs.ts';

export interface BandwidthInUse {
  endpoint_id: string;
  bandwidth: Bandwidth | null;
  /** Transfers of other processes; one that reads and writes here counts twice. */
  others: number;
}

/**
 * Returns the limits of endpoints, and how many transfers other mover processes move there. Counts
 * nothing for an endpoint without a limit.
 */
export async function bandwidthInUse(
  sql: Sql,
  processId: string,
  endpointIds: string[],
): Promise<BandwidthInUse[]> {
  return sql<BandwidthInUse[]>`
    select e.endpoint_id, e.state -> 'bandwidth' as bandwidth, coalesce(o.others, 0) as others
      from read.endpoints e
      left join lateral (
        select (count(*) filter (where j.source_endpoint_id = e.endpoint_id)
                + count(*) filter (where j.destination_endpoint_id = e.endpoint_id))::integer
               as others
          from (${jobs(sql)}) j
         where j.claim_id is not null and j.lease_until > now() and j.claimed_by <> ${processId}
      ) o on jsonb_typeof(e.state -> 'bandwidth') = 'object'
     where e.endpoint_id = any(${endpointIds}::text[]) and not e.removed`;
}
