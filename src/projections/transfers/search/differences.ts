import type { Difference, Projection } from '../../projection.ts';
import { wrongIndexes } from './segment-index.ts';

/**
 * Returns the rows that differ between two schemas: `Projection.differences` of `transfer_search`.
 * Which rows have a segment follows from the batches in which they came. So segments and accounts
 * are compared with the rows of the live schema.
 */
export const searchDifferences: Projection['differences'] = async (
  tx,
  { live, shadow, position, limit, leaving = [] },
) => {
  const digests = (schema: string) => tx`
    select transfer_id, account_id, created_at, position, md5(text) as digest
      from ${tx(schema)}.transfer_search`;
  return tx<Difference[]>`
    select transfer_id as key
      from (${digests(live)}) l full join (${digests(shadow)}) s using (transfer_id)
     where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
       and l is distinct from s and transfer_id <> all(${leaving}::text[])
    union all
    select concat_ws(' ', 'segment', segment)
      from (
        select segment, account_id, min(created_at) as starts, max(created_at) as ends,
               count(distinct number) = count(*) and min(number) >= 0 as is_numbered,
               max(number) as last
          from ${tx(live)}.transfer_search where segment <> 0 group by 1, 2
      ) found
      full join ${tx(live)}.transfer_search_segments stored
        using (segment, account_id, starts, ends)
     where found is null or stored is null or not is_numbered or last >= texts
        or stored.segment = any(${await wrongIndexes(tx, live)}::integer[])
    union all
    select concat_ws(' ', 'account', account_id)
      from (
        select account_id, max(position) as position,
               count(*) filter (where segment = 0) as recent,
               min(created_at) filter (where segment = 0) as starts,
               max(created_at) filter (where segment = 0) as ends,
               sum(length(text)) filter (where segment = 0) as characters
          from ${tx(live)}.transfer_search group by 1
      ) found
      full join ${tx(live)}.transfer_search_accounts stored using (account_id)
     where stored is null or coalesce(found.recent, 0) <> stored.recent
        -- a later transfer may have left the log since
        or found.position > stored.position or coalesce(found.characters, 0) > stored.characters
        or found.starts < coalesce(stored.starts, 'infinity')
        or found.ends > coalesce(stored.ends, '-infinity')
    limit ${limit}`;
};
