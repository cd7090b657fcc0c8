import type { Fragment, Sql } from '../../adapters/postgres/connect.ts';
import { batchOf, retryOf } from './columns.ts';
import { endedStatuses } from './statuses.ts';

/** An ended transfer whose batch and flow run have ended too. */
export interface RemovableTransfer {
  transfer_id: string;
  /** The transfer that it repeats; null if it repeats none. */
  retry_of: string | null;
  /** True if that one stays for its batch or run, which is still open. */
  original_stays: boolean;
}

/**
 * Returns ended transfers whose batch and flow run have ended too, in ascending order of their ids.
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
): Promise<RemovableTransfer[]> {
  const isOpen = (batch: Fragment) => sql`
    (exists (select from read.batches b where b.batch_id = ${batch} and not b.ended)
     or exists (select from read.flow_runs r
                 where r.batch_id = ${batch} and r.ended_at is null))`;
  return sql<RemovableTransfer[]>`
    select transfer_id, retry_of,
           exists (select from (select ${batchOf(sql)} as batch_id from read.transfers
                                 where transfer_id = t.retry_of) original
                    where ${isOpen(sql`original.batch_id`)}) as original_stays
      from (select transfer_id, ${batchOf(sql)} as batch_id, ${retryOf(sql)} as retry_of
              from read.transfers
             where transfer_id > ${after} and created_at < ${endedBefore}
               and status in (${endedStatuses(sql)})
               and (${accountId}::text is null or account_id = ${accountId})) t
     where not ${isOpen(sql`t.batch_id`)}
     order by transfer_id limit ${limit}`;
}
