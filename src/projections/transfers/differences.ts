/*
 * Compares the read model of transfers with a rebuilt one.
 *
 * The rows are compared by sums of hashes, one sum for each of many groups of rows. Only the rows
 * of groups that differ are then compared one by one. So the comparison reads each table once and
 * sorts nothing, whatever its size.
 */
import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { Difference, Projection } from '../projection.ts';
import { retainedDifferences } from '../retention/retained-transfers.ts';
import { batchOf, hasBatch } from './columns.ts';

/** Number of groups, minus one: a power of two, minus one. */
const GROUPS = 16_383;

/** Returns the rows that differ between two schemas: `Projection.differences` of `transfers`. */
export const transferDifferences: Projection['differences'] = async (
  tx,
  live,
  shadow,
  position,
  limit,
  leaving,
) => {
  const inRetained = await retainedDifferences(tx, live, shadow, position, limit);
  const left = limit - inRetained.length;
  const inRows = await rowDifferences(tx, live, shadow, position, left, leaving);
  const found = [...inRetained, ...inRows];
  return [...found, ...(await countDifferences(tx, live, limit - found.length))];
};

const rowDifferences: Projection['differences'] = async (
  tx,
  live,
  shadow,
  position,
  limit,
  leaving = [],
) => {
  const group = tx`(hashtext(transfer_id) & ${GROUPS}::integer)`;
  // `offset 0` keeps the planner from sorting whole rows by their group.
  const sums = (schema: string) => tx`
    select member, sum(hash) as sum
      from (select ${group} as member,
                   hash_record_extended(row(transfer_id, account_id, status, created_at, destination,
                                            revision, position, state::text), 0) as hash
              from ${tx(schema)}.transfers where position <= ${position} offset 0) hashed
     group by member`;
  const differing = await tx<{ member: number }[]>`
    select member from (${sums(live)}) l full join (${sums(shadow)}) s using (member)
     where l.sum is distinct from s.sum`;
  if (differing.length === 0) return [];
  const members = differing.map(({ member }) => member);
  // Joins digests in place of states, so neither side of the join spills to disk.
  const digests = (schema: string) => tx`
    select transfer_id, account_id, status, created_at, destination, revision, position,
           md5(state::text) as digest
      from ${tx(schema)}.transfers where ${group} = any(${members}::integer[])`;
  const rowIn = (schema: string) =>
    tx`(select to_jsonb(t) from ${tx(schema)}.transfers t where t.transfer_id = d.transfer_id)`;
  return tx<Difference[]>`
    with differing as materialized (
      select transfer_id,
             (to_jsonb(l) - 'digest') is distinct from (to_jsonb(s) - 'digest') as in_columns
        from (${digests(live)}) l full join (${digests(shadow)}) s using (transfer_id)
       where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
         and l is distinct from s and transfer_id <> all(${leaving}::text[])
    )
    -- jsonb ignores the order of keys, which is no difference
    select transfer_id as key, ${rowIn(live)} as live, ${rowIn(shadow)} as log
      from differing d
     where in_columns
        or ${rowIn(live)} -> 'state' is distinct from ${rowIn(shadow)} -> 'state'
     limit ${limit}`;
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
