import type { Sql } from '../../adapters/postgres/connect.ts';
import { batchOf } from './columns.ts';
import { endedStatuses } from './statuses.ts';

/**
 * Returns the ids of ended transfers whose batch and flow run have ended too, in ascending order.
 * The caller checks when they ended: the events say so.
 */
export async function removableTransfers(
  sql: Sql,
  {
    endedBefore,
    accountId,
    after,
    limit,
  }: { endedBefore: Date; accountId: string | null; after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ transfer_id: string }[]>`
    select transfer_id
      from (select transfer_id, ${batchOf(sql)} as batch_id from read.transfers
             where transfer_id > ${after} and created_at < ${endedBefore}
               and status in (${endedStatuses(sql)})
               and (${accountId}::text is null or account_id = ${accountId})) t
     where not exists (select from read.batches b where b.batch_id = t.batch_id and not b.ended)
       and not exists (select from read.flow_runs r
                        where r.batch_id = t.batch_id and r.ended_at is null)
     order by transfer_id limit ${limit}`;
  return rows.map(({ transfer_id }) => transfer_id);
}
