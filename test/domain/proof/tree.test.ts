import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFrontier } from '../../../src/domain/proof/frontier.ts';
import { EMPTY_ROOT, type Hash, leafHash, nodeHash } from '../../../src/domain/proof/hash.ts';
import {
  consistencyRanges,
  inclusionRanges,
  isConsistent,
  rootOfInclusion,
} from '../../../src/domain/proof/proofs.ts';
import {
  extendTiles,
  type Range,
  rangeHash,
  readNodes,
  sizeOf,
  type Tile,
  tilesOf,
} from '../../../src/domain/proof/tiles.ts';

/** The leaves and roots of the reference implementation of Certificate Transparency. */
const LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((hex) => Buffer.from(hex, 'hex').toString('latin1'));
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const LEAF_1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7';
const LEAF_4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b';
const NODE_2_4 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e';
const NODE_4_6 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a';
const NODE_6_8 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0';
const NODE_4_8 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4';

const hex = (hash: Hash) => Buffer.from(hash).toString('hex');
const bytes = (text: string): Hash => Buffer.from(text, 'hex');

function createTree(leaves: Hash[], batch = leaves.length) {
  const tiles = new Map<string, Tile>();
  for (let from = 0; from < leaves.length; from += batch)
    for (const tile of extendTiles(edgeOf([...tiles.values()]), leaves.slice(from, from + batch)))
      tiles.set(`${tile.level}/${tile.tile}`, tile);
  /** Reads only the tiles that `tilesOf` names. */
  const read = (ranges: Range[]) => {
    const named = tilesOf(ranges).map(({ level, tile }) => tiles.get(`${level}/${tile}`) as Tile);
    return ranges.map((range) => rangeHash(range, readNodes(named)));
  };
  return {
    tiles,
    root: (size: number) => read([{ start: 0, end: size }])[0] as Hash,
    inclusion: (index: number, size: number) => read(inclusionRanges(index, size)),
    consistency: (from: number, size: number) => read(consistencyRanges(from, size)),
  };
}

function edgeOf(tiles: Tile[]): Tile[] {
  const edge: Tile[] = [];
  for (const tile of tiles) if (tile.tile >= (edge[tile.level]?.tile ?? 0)) edge[tile.level] = tile;
  return edge;
}

/** The definition of RFC 6962, section 2.1, as it is written there. */
function treeHash(leaves: Hash[]): Hash {
  if (leaves.length === 0) return createHash('sha256').digest();
  if (leaves.length === 1) return leaves[0] as Hash;
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return nodeHash(treeHash(leaves.slice(0, k)), treeHash(leaves.slice(k)));
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => leafHash(`leaf ${i}`));

describe('the tree of RFC 6962', () => {
  const reference = LEAVES.map((leaf) =>
    // The reference leaves are bytes, and some are no UTF-8.
    createHash('sha256').update('\0').update(Buffer.from(leaf, 'latin1')).digest(),
  );

  it('hashes a leaf as text', () => {
    expect(hex(leafHash(''))).toBe(ROOTS[1]);
    expect(hex(leafHash('\0'))).toBe(LEAF_1);
    expect(leafHash('ü')).toEqual(createHash('sha256').update('\0ü', 'utf8').digest());
  });

  it('has the reference roots, in tiles and as a frontier', () => {
    const tree = createTree(reference);
    const frontier = createFrontier();
    expect(hex(EMPTY_ROOT)).toBe(ROOTS[0]);
    for (const [size, root] of ROOTS.entries()) {
      expect(hex(frontier.root())).toBe(root);
      if (size > 0) expect(hex(tree.root(size))).toBe(root);
      if (size < reference.length) frontier.append(reference[size] as Hash);
    }
  });

  it.each([
    [0, 1, []],
    [0, 8, [LEAF_1, NODE_2_4, NODE_4_8]],
    [5, 8, [LEAF_4, NODE_6_8, ROOTS[4]]],
    [2, 3, [ROOTS[2]]],
    [1, 5, [ROOTS[1], NODE_2_4, LEAF_4]],
  ])('proves leaf %i of %i by the reference path', (index, size, path) => {
    expect(createTree(reference).inclusion(index, size).map(hex)).toEqual(path);
    const root = rootOfInclusion(
      reference[index] as Hash,
      index,
      size,
      path.map((each) => bytes(each as string)),
    );
    expect(hex(root as Hash)).toBe(ROOTS[size]);
  });

  it.each([
    [1, 1, []],
    [1, 8, [LEAF_1, NODE_2_4, NODE_4_8]],
    [6, 8, [NODE_4_6, NODE_6_8, ROOTS[4]]],
    [2, 5, [NODE_2_4, LEAF_4]],
  ])('proves that %i leaves begin %i by the reference proof', (from, size, proof) => {
    expect(createTree(reference).consistency(from, size).map(hex)).toEqual(proof);
    const head = (n: number) => ({ size: n, root: bytes(ROOTS[n] as string) });
    const hashes = proof.map((each) => bytes(each as string));
    expect(isConsistent(head(from), head(size), hashes)).toBe(true);
  });
});

describe('tiles', () => {
  const leaves = numbered(70_000);
  const tree = createTree(leaves, 997);

  it('are those of the definition, whatever the batches', () => {
    expect(tree.root(1_000)).toEqual(treeHash(leaves.slice(0, 1_000)));
    expect(tree.root(70_000)).toEqual(treeHash(leaves));
    expect(createTree(leaves, 70_000).tiles).toEqual(tree.tiles);
    expect(sizeOf(edgeOf([...tree.tiles.values()])[0])).toBe(70_000);
    expect(sizeOf(undefined)).toBe(0);
  });

  it('hold 256 hashes, and the root of each in the level above', () => {
    const shapes = [...tree.tiles.values()].map(({ level, tile, hashes }) => ({
      level,
      tile,
      count: hashes.length / 32,
    }));
    expect(
      shapes.filter(({ count }) => count < 256).map(({ level, tile }) => [level, tile]),
    ).toEqual(
      expect.arrayContaining([
        [0, 273],
        [1, 1],
        [2, 0],
      ]),
    );
    expect(tree.tiles.get('1/0')?.hashes.subarray(0, 32)).toEqual(treeHash(leaves.slice(0, 256)));
  });

  it('prove every leaf in every tree, and no other', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 70_000 }), fc.nat(), (size, anyIndex) => {
        const index = anyIndex % size;
        const path = tree.inclusion(index, size);
        const leaf = leaves[index] as Hash;
        const root = hex(tree.root(size));
        const follows = (hash: Hash, way: Hash[]) =>
          hex(rootOfInclusion(hash, index, size, way) ?? EMPTY_ROOT);
        expect(follows(leaf, path)).toBe(root);
        if (size === 1) return;
        expect(follows(leafHash('forged'), path)).not.toBe(root);
        expect(rootOfInclusion(leaf, index, size, path.slice(1))).toBeNull();
        expect(follows(leaf, [...path.slice(1), leafHash('')])).not.toBe(root);
      }),
      { numRuns: 50 },
    );
    expect(rootOfInclusion(leafHash(''), 1, 1, [])).toBeNull();
    expect(() => inclusionRanges(3, 3)).toThrow(RangeError);
  });

  it('prove that a tree begins with a smaller one, and with no other', () => {
    fc.assert(
      fc.property(fc.nat({ max: 70_000 }), fc.nat(), (size, anyFrom) => {
        const from = anyFrom % (size + 1);
        const head = (n: number) => ({ size: n, root: tree.root(n) });
        const proof = tree.consistency(from, size);
        expect(isConsistent(head(from), head(size), proof)).toBe(true);
        const forged = { size: from, root: leafHash('forged') };
        expect(isConsistent(forged, head(size), proof)).toBe(false);
        expect(isConsistent(head(from), { size, root: forged.root }, proof)).toBe(
          from === 0 && size > 0,
        );
        expect(isConsistent(head(from), head(size), [...proof, forged.root])).toBe(false);
      }),
      { numRuns: 50 },
    );
    expect(isConsistent({ size: 2, root: tree.root(2) }, { size: 1, root: tree.root(1) }, [])).toBe(
      false,
    );
    expect(() => consistencyRanges(3, 2)).toThrow(RangeError);
  });

  it('say which tile lacks a node', () => {
    expect(() => rangeHash({ start: 0, end: 70_001 }, readNodes(tree.tiles.values()))).toThrow(
      'tile 0/273 lacks the node 70000 of height 0: the table read.proof_tiles was changed',
    );
  });
});

describe('a frontier', () => {
  it('continues from its subtrees', () => {
    const leaves = numbered(300);
    const first = createFrontier();
    for (const leaf of leaves.slice(0, 201)) first.append(leaf);
    const second = createFrontier(first.size(), first.subtrees());
    for (const leaf of leaves.slice(201)) second.append(leaf);
    expect(second.size()).toBe(300);
    expect(second.root()).toEqual(treeHash(leaves));
    expect(second.subtrees()).toHaveLength(4);
    expect(() => createFrontier(2, [])).toThrow(RangeError);
  });
});

it.each([
  ['more hashes than a tile holds', 257 * 32],
  ['a part of a hash', 33],
])('a tile with %s grows no tree', (_, length) => {
  const tile = { level: 0, tile: 3, hashes: new Uint8Array(length) };
  expect(() => extendTiles([tile], [bytes(LEAF_1)])).toThrow(
    `tile 0/3 has ${length} bytes, which no tile has`,
  );
});
