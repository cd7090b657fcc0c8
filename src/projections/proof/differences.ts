import type { Fragment } from '../../adapters/postgres/connect.ts';
import { HASH_BYTES } from '../../domain/proof/hash.ts';
import { TILE_WIDTH } from '../../domain/proof/tiles.ts';
import type { Difference, Projection } from '../projection.ts';

/** Returns the rows that differ between two schemas: `Projection.differences` of `proof`. */
export const proofDifferences: Projection['differences'] = async (
  tx,
  { live, shadow, position, limit },
) => {
  const sizeOfLast = (schema: string, condition: Fragment) => tx`
    coalesce((
      select tile::bigint * ${TILE_WIDTH} + length(hashes) / ${HASH_BYTES}
        from ${tx(schema)}.proof_tiles
       where level = 0 and ${condition} order by tile desc limit 1), 0)`;
  // How many bytes the tile of a row has in a tree of `leaves` leaves.
  const bytesIn = (leaves: Fragment) => tx`
    ${HASH_BYTES} * greatest(0, least(${TILE_WIDTH},
      div(${leaves}, power(${TILE_WIDTH}::numeric, level)) - tile::bigint * ${TILE_WIDTH}))::integer`;
  return tx<Difference[]>`
    with trees as (
      select ${sizeOfLast(live, tx`true`)} as live, ${sizeOfLast(shadow, tx`true`)} as shadow,
             ${sizeOfLast(shadow, tx`last_position <= ${position}`)} as until_position,
             exists (select from ${tx(live)}.proof_tiles
                      where level = 0 and last_position > ${position}) as live_is_ahead),
    -- The leaves that both must have. The live tree may have more only if it is ahead.
    common as (
      select *, greatest(until_position, least(live, shadow)) as leaves from trees)
    select 'tile ' || level || '/' || tile as key
      from ${tx(live)}.proof_tiles l full join ${tx(shadow)}.proof_tiles s using (level, tile)
     cross join common
     cross join lateral (
       select ${bytesIn(tx`leaves`)} as common,
              ${bytesIn(tx`case when live_is_ahead then greatest(live, leaves) else leaves end`)}
                as live) bytes
     where coalesce(length(l.hashes), 0) <> bytes.live
        or (bytes.common > 0
            and (substr(l.hashes, 1, bytes.common) <> substr(s.hashes, 1, bytes.common)
                 or l.first_position is distinct from s.first_position
                 or (length(l.hashes) = length(s.hashes)
                     and l.last_position is distinct from s.last_position)
                 or (l.names is null) <> (s.names is null)
                 or not ((l.names || E'\n') ^@ (s.names || E'\n')
                         or (s.names || E'\n') ^@ (l.names || E'\n'))
                 or cardinality(string_to_array(l.names, E'\n'))
                    <> length(l.hashes) / ${HASH_BYTES}))
    union all
    select 'checkpoint ' || revision
      from ${tx(live)}.proof_checkpoints l
      full join ${tx(shadow)}.proof_checkpoints s using (revision)
     where coalesce(l.position, s.position) <= ${position} and l is distinct from s
    union all
    select 'key ' || revision
      from ${tx(live)}.proof_keys l full join ${tx(shadow)}.proof_keys s using (revision)
     where coalesce(l.position, s.position) <= ${position} and l is distinct from s
     limit ${limit}`;
};
