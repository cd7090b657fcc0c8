/*
 * A Merkle tree (RFC 6962) in tiles, as C2SP tlog-tiles cuts it.
 *
 * A tile has up to 256 hashes, side by side. Level 0 has the hashes of the leaves. A hash of level
 * L + 1 is the root of a full tile of level L. Only the last tile of a level is partial. It grows
 * at its end, so the tile of a smaller tree is the start of the tile of a larger one.
 *
 * A node of the tree is named by its height (0 for leaves) and its index among the nodes of that
 * height. Only nodes over 2^height leaves have a name: other nodes are made of them.
 */
import { EMPTY_ROOT, HASH_BYTES, type Hash, nodeHash, nodeHashOf } from './hash.ts';
import { LogChanged, PROOF_REMEDY } from './log-changed.ts';

/** Levels of the tree that a tile holds. */
const TILE_HEIGHT = 8;
/** Number of hashes of a full tile. */
export const TILE_WIDTH = 2 ** TILE_HEIGHT;
/** Levels of tiles that any log can have: 2^40 leaves. */
export const TILE_LEVELS = 5;

export interface TileName {
  level: number;
  /** Place among the tiles of its level, from 0. */
  tile: number;
}

export interface Tile extends TileName {
  hashes: Uint8Array;
}

/** The leaves of a subtree: from `start` (inclusive) to `end` (exclusive). */
export interface Range {
  start: number;
  end: number;
}

/** Returns the hash of a node over 2^height leaves. */
export type NodeReader = (height: number, index: number) => Hash;

/**
 * Appends hashes of leaves to a tree. `edge` has the last tile of each level, from level 0 up.
 * Returns the tiles that changed or were added, each in its last state. Throws LogChanged for a tile
 * that no tree has.
 */
export function extendTiles(edge: Tile[], leaves: Hash[]): Tile[] {
  const changed: Tile[] = [];
  let added = leaves;
  for (let level = 0; added.length > 0; level += 1) {
    const roots: Hash[] = [];
    let last = edge[level] ?? { level, tile: 0, hashes: new Uint8Array() };
    for (let used = 0; used < added.length; ) {
      const held = last.hashes.length / HASH_BYTES;
      if (!Number.isInteger(held) || held > TILE_WIDTH) throw misshapen(last);
      if (held === TILE_WIDTH) {
        last = { level, tile: last.tile + 1, hashes: new Uint8Array() };
        continue;
      }
      const next = added.slice(used, used + TILE_WIDTH - held);
      used += next.length;
      last = { ...last, hashes: Buffer.concat([last.hashes, ...next]) };
      changed.push(last);
      if (held + next.length === TILE_WIDTH) roots.push(rootOfHashes(last.hashes));
    }
    added = roots;
  }
  return changed;
}

function misshapen({ level, tile, hashes }: Tile): LogChanged {
  return new LogChanged(
    `tile ${level}/${tile} has ${hashes.length} bytes, which no tile has: the table ` +
      `read.proof_tiles was changed. ${PROOF_REMEDY}`,
  );
}

/** Returns the number of leaves of a tree with this last tile of level 0. */
export function sizeOf(last: Tile | undefined): number {
  return last === undefined ? 0 : last.tile * TILE_WIDTH + last.hashes.length / HASH_BYTES;
}

/** Returns the names of the tiles that hold what the hashes of these subtrees are made of. */
export function tilesOf(ranges: Range[]): TileName[] {
  const names = new Map<string, TileName>();
  for (const range of ranges)
    for (const { height, index } of perfectNodes(range)) {
      const name = tileOfNode(height, index);
      names.set(`${name.level}/${name.tile}`, name);
    }
  return [...names.values()];
}

/**
 * Creates a reader of nodes from these tiles. It throws LogChanged if one of them is missing or
 * short: a fold never leaves a gap. It keeps what it has computed: the proofs of several leaves
 * share most of their nodes.
 */
export function readNodes(tiles: Iterable<Tile>): NodeReader {
  const known = new Map<string, Tile>();
  for (const tile of tiles) known.set(`${tile.level}/${tile.tile}`, tile);
  const computed = new Map<string, Hash>();
  const compute: NodeReader = (height, index) => {
    const { level, tile } = tileOfNode(height, index);
    const width = 2 ** (height % TILE_HEIGHT);
    const start = (index * width - tile * TILE_WIDTH) * HASH_BYTES;
    const hashes = known
      .get(`${level}/${tile}`)
      ?.hashes.subarray(start, start + width * HASH_BYTES);
    if (hashes?.length !== width * HASH_BYTES)
      throw new LogChanged(
        `tile ${level}/${tile} lacks the node ${index} of height ${height}: the table ` +
          `read.proof_tiles was changed. ${PROOF_REMEDY}`,
      );
    return rootOfHashes(hashes);
  };
  return (height, index) => {
    const name = `${height}/${index}`;
    const hash = computed.get(name) ?? compute(height, index);
    computed.set(name, hash);
    return hash;
  };
}

/** Returns the hash of the subtree over these leaves. */
export function rangeHash(range: Range, node: NodeReader): Hash {
  const hashes = perfectNodes(range).map(({ height, index }) => node(height, index));
  const last = hashes.pop() ?? EMPTY_ROOT;
  return hashes.reduceRight((right, left) => nodeHash(left, right), last);
}

/** Splits a subtree of RFC 6962 into nodes over a power of two of leaves, from left to right. */
function perfectNodes({ start, end }: Range): { height: number; index: number }[] {
  const nodes: { height: number; index: number }[] = [];
  for (let at = start; at < end; ) {
    let height = 0;
    while (2 ** (height + 1) <= end - at) height += 1;
    nodes.push({ height, index: at / 2 ** height });
    at += 2 ** height;
  }
  return nodes;
}

function tileOfNode(height: number, index: number): TileName {
  const level = Math.floor(height / TILE_HEIGHT);
  return { level, tile: Math.floor((index * 2 ** (height % TILE_HEIGHT)) / TILE_WIDTH) };
}

/** Returns the root over hashes that lie side by side. Their number is a power of two. */
function rootOfHashes(hashes: Uint8Array): Hash {
  let row = hashes;
  while (row.length > HASH_BYTES) {
    const above = new Uint8Array(row.length / 2);
    for (let from = 0; from < row.length; from += 2 * HASH_BYTES)
      above.set(nodeHashOf(row, from), from / 2);
    row = above;
  }
  return row;
}
