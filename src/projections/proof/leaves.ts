import type { Sql } from '../../adapters/postgres/connect.ts';
import { HASH_BYTES, type Hash } from '../../domain/proof/hash.ts';
import { TILE_WIDTH } from '../../domain/proof/tiles.ts';

export interface EventName {
  stream: string;
  revision: number;
  id: string;
}

/** A leaf of the stored tree. */
export interface StoredLeaf {
  /** From 0. */
  index: number;
  hash: Hash;
  /** Null if the tree does not say which event the leaf is. */
  name: EventName | null;
}

/**
 * Returns the leaves of the stored tree from an index (inclusive) to another (exclusive), in order,
 * up to the first that it lacks. A hash is proven by the root of the tree, a name by nothing.
 */
export async function readLeaves(sql: Sql, from: number, to: number): Promise<StoredLeaf[]> {
  const first = Math.floor(from / TILE_WIDTH);
  const tiles = await sql<{ tile: number; hashes: Uint8Array; names: string | null }[]>`
    select tile, hashes, names from read.proof_tiles
     where level = 0 and tile between ${first} and ${Math.floor((to - 1) / TILE_WIDTH)}
     order by tile`;
  const leaves: StoredLeaf[] = [];
  for (const [i, { tile, hashes, names }] of tiles.entries()) {
    if (tile !== first + i) break;
    const lines = names?.split('\n') ?? [];
    const held = hashes.length / HASH_BYTES;
    for (let n = 0; n < held; n++)
      leaves.push({
        index: tile * TILE_WIDTH + n,
        hash: hashes.subarray(n * HASH_BYTES, (n + 1) * HASH_BYTES),
        name: parseName(lines[n]),
      });
    if (held < TILE_WIDTH) break;
  }
  return leaves.filter(({ index }) => index >= from && index < to);
}

/** Returns the line by which a tile names an event. */
export function nameLine({ stream, revision, id }: EventName): string {
  return `${id} ${revision} ${stream}`;
}

function parseName(line: string | undefined): EventName | null {
  const [, id, revision, stream] = /^(\S+) (\d+) (.+)$/.exec(line ?? '') ?? [];
  if (id === undefined || stream === undefined) return null;
  return { stream, revision: Number(revision), id };
}
