import type { Queryable } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { HASH_BYTES, type Hash } from '../../domain/proof/hash.ts';
import { consistencyRanges, inclusionRanges } from '../../domain/proof/proofs.ts';
import {
  type Range,
  rangeHash,
  readNodes,
  TILE_WIDTH,
  type Tile,
  type TileName,
  tilesOf,
} from '../../domain/proof/tiles.ts';

/** An event and the hash of its leaf. */
export interface Leaf {
  event: StoredEvent;
  hash: Hash;
}

export async function readTiles(
  sql: Queryable,
  schema: string,
  names: TileName[],
): Promise<Tile[]> {
  if (names.length === 0) return [];
  return sql<Tile[]>`
    select level, tile, hashes
      from unnest(${names.map(({ level }) => level)}::integer[],
                  ${names.map(({ tile }) => tile)}::integer[]) n(level, tile)
      join ${sql(schema)}.proof_tiles using (level, tile)`;
}

/**
 * Returns the index of each leaf in the tree. Null for a leaf that the tree does not have: it is
 * not folded yet, or the event is not as it was when it was folded.
 */
export async function findLeaves<L extends Leaf>(
  sql: Queryable,
  schema: string,
  leaves: L[],
): Promise<Map<L, number | null>> {
  const tiles = await sql<(Tile & { n: bigint })[]>`
    select n, t.tile, t.hashes
      from unnest(${leaves.map(({ event }) => String(event.position))}::bigint[])
           with ordinality as l(position, n)
     cross join lateral (
       select * from ${sql(schema)}.proof_tiles
        where level = 0 and first_position <= l.position
        order by first_position desc limit 2) t`;
  const found = new Map<L, number | null>(leaves.map((leaf) => [leaf, null]));
  for (const { n, tile, hashes } of tiles) {
    const leaf = leaves[Number(n) - 1] as L;
    const place = placeOf(leaf.hash, hashes);
    if (place !== null) found.set(leaf, tile * TILE_WIDTH + place);
  }
  return found;
}

/** Returns the place of a hash among hashes that lie side by side; null if it is not there. */
function placeOf(hash: Hash, hashes: Uint8Array): number | null {
  for (let at = 0; ; at += 1) {
    at = Buffer.from(hashes.buffer, hashes.byteOffset, hashes.length).indexOf(hash, at);
    if (at < 0) return null;
    if (at % HASH_BYTES === 0) return at / HASH_BYTES;
  }
}

/** Returns the root of the first `size` leaves. */
export async function rootAt(sql: Queryable, schema: string, size: number): Promise<Hash> {
  const [root] = await readRanges(sql, schema, [[{ start: 0, end: size }]]);
  return (root as Hash[])[0] as Hash;
}

/** Returns the audit path of each leaf in the tree of `size` leaves, from the leaf up. */
export function inclusionProofs(
  sql: Queryable,
  schema: string,
  indexes: number[],
  size: number,
): Promise<Hash[][]> {
  return readRanges(
    sql,
    schema,
    indexes.map((index) => inclusionRanges(index, size)),
  );
}

/** Returns the proof that the tree of `size` leaves begins with the tree of `from` leaves. */
export async function consistencyProof(
  sql: Queryable,
  schema: string,
  from: number,
  size: number,
): Promise<Hash[]> {
  const [proof] = await readRanges(sql, schema, [consistencyRanges(from, size)]);
  return proof as Hash[];
}

async function readRanges(sql: Queryable, schema: string, lists: Range[][]): Promise<Hash[][]> {
  const node = readNodes(await readTiles(sql, schema, tilesOf(lists.flat())));
  return lists.map((ranges) => ranges.map((range) => rangeHash(range, node)));
}
