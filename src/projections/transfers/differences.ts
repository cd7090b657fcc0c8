/*
 * Compares the read model of transfers with a rebuilt one.
 *
 * The rows of both tables are joined in the order of their ids, by their primary keys. Both tables
 * have them almost in this order, so each is read once, and nothing is sorted or kept, whatever its
 * size.
 */
import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { Difference, Projection } from '../projection.ts';
import { retentionDifferences } from '../retention/removed-transfers.ts';
import { batchOf, hasBatch } from './columns.ts';

/** Returns the rows that differ between two schemas: `Projection.differences` of `transfers`. */
export const transferDifferences: Projection['differences'] = async (tx, compared) => {
  const { live, limit } = compared;
  const found = await retentionDifferences(tx, compared);
  found.push(...(await rowDifferences(tx, { ...compared, limit: limit - found.length })));
  found.push(...(await countDifferences(tx, live, limit - found.length)));
  return found;
};

const rowDifferences: Projection['differences'] = async (
  tx,
  { live, shadow, position, limit, leaving = [] },
) => {
  const inColumns = tx`
    (l.account_id, l.status, l.created_at, l.destination, l.revision, l.position)
      is distinct from
    (s.account_id, s.status, s.created_at, s.destination, s.revision, s.position)`;
  // Otherwise Postgres hashes whole rows, more than fit into memory.
  await tx`set local enable_hashjoin = off`;
  await tx`set local enable_sort = off`;
  const found = await tx<Difference[]>`
    select transfer_id as key, to_jsonb(l) as live, to_jsonb(s) as log
      from ${tx(live)}.transfers l full join ${tx(shadow)}.transfers s using (transfer_id)
     where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
       and transfer_id <> all(${leaving}::text[])
       -- Most states have the same bytes. jsonb ignores the order of keys, which is no difference.
       and (${inColumns} or (record_image_ne(row(l.state), row(s.state))
                             and l.state::jsonb is distinct from s.state::jsonb))
     limit ${limit}`;
  await tx`set local enable_hashjoin = on`;
  await tx`set local enable_sort = on`;
  return found;
};

/** Returns the counts that differ from the rows of the same schema. */
async function countDifferences(
  tx: Transaction,
  schema: string,
  limit: number,
): Promise<Difference[]> {
  return tx<Difference[]>`
    with counted as materialized (
      select account_id, status, date_trunc('hour', created_at) as hour, count(*) as transfers
        from ${tx(schema)}.transfers group by 1, 2, 3
    )
    select concat_ws(' ', 'count', account_id, status, hour) as key,
           to_jsonb(stored.transfers) as live, to_jsonb(counted.transfers) as log
      from counted
      full join (select * from ${tx(schema)}.transfer_counts where transfers <> 0) stored
        using (account_id, status, hour)
     where counted.transfers is distinct from stored.transfers
    union all
    select concat_ws(' ', 'total', status), to_jsonb(stored.transfers), to_jsonb(summed.transfers)
      from (select status, sum(transfers) as transfers from counted group by 1) summed
      full join (select * from ${tx(schema)}.transfer_totals where transfers <> 0) stored
        using (status)
     where summed.transfers is distinct from stored.transfers
    union all
    select concat_ws(' ', 'batch', batch_id, status), to_jsonb(stored), to_jsonb(summed)
      from (
        select ${batchOf(tx)} as batch_id, status, count(*) as transfers,
               coalesce(sum((state -> 'facts' ->> 'size_bytes')::bigint), 0) as bytes
          from ${tx(schema)}.transfers
         where ${hasBatch(tx)} and ${batchOf(tx)} is not null group by 1, 2) summed
      full join (select * from ${tx(schema)}.batch_counts where transfers <> 0) stored
        using (batch_id, status)
     where (summed.transfers, summed.bytes) is distinct from (stored.transfers, stored.bytes)
     limit ${limit}`;
}
