import type { Queryable } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import { hashOfLeaf } from '../../domain/proof/leaf.ts';
import { extendTiles, sizeOf, TILE_LEVELS, type Tile } from '../../domain/proof/tiles.ts';
import type { RemovedLeaf } from '../../domain/retention.ts';
import type { RemovedLeaves } from '../retention/removed-leaves.ts';
import type { EventName } from './leaves.ts';
import { findLeaves, type Leaf } from './tiles.ts';

/** The last tile of a level. Those of level 0 have the position of their last event. */
export interface EdgeTile extends Tile {
  last_position: bigint | null;
}

/** Returns the last tile of each level, from level 0 up. */
export async function readEdge(tx: Queryable, schema: string): Promise<EdgeTile[]> {
  return tx<EdgeTile[]>`
    select t.level, t.tile, t.hashes, t.last_position
      from generate_series(0, ${TILE_LEVELS - 1}) l
     cross join lateral (
       select * from ${tx(schema)}.proof_tiles where level = l order by tile desc limit 1) t
     order by t.level`;
}

/** Returns the leaves of the events that the tree does not have yet. */
export async function newLeaves(
  tx: Queryable,
  schema: string,
  last: EdgeTile | undefined,
  events: StoredEvent[],
): Promise<Leaf[]> {
  const leaves = events.map(toLeaf);
  const until = last?.last_position ?? 0n;
  const doubtful = leaves.filter(({ event }) => event.position <= until);
  if (doubtful.length === 0) return leaves;
  // Events of one append may share a position in an EventStoreDB.
  const known = await findLeaves(tx, schema, doubtful);
  return leaves.filter((leaf) => (known.get(leaf) ?? null) === null);
}

export function toLeaf(event: StoredEvent): Leaf {
  return { event, hash: event.leaf_hash ?? hashOfLeaf(event) };
}

/**
 * What a batch adds to a tree of `size` leaves. `tiles` has those that changed, in their last
 * state.
 */
export interface Growth {
  size: number;
  leaves: NewLeaf[];
  tiles: Tile[];
}

export function grow(edge: EdgeTile[], leaves: NewLeaf[]): Growth {
  const size = sizeOf(edge[0]);
  const tiles = extendTiles(
    edge,
    leaves.map(({ hash }) => hash),
  );
  return { size, leaves, tiles };
}

export function edgeAfter(before: EdgeTile[], { leaves, tiles }: Growth): EdgeTile[] {
  const last_position = leaves.at(-1)?.position ?? null;
  const last = new Map(before.map((tile) => [tile.level, tile]));
  for (const tile of tiles)
    last.set(tile.level, { ...tile, last_position: tile.level === 0 ? last_position : null });
  return [...last.values()];
}

/** A leaf to save. `event` is null if the event left the log. */
export interface NewLeaf {
  hash: Hash;
  name: EventName;
  position: bigint;
  event: StoredEvent | null;
}

/**
 * Adds the leaves of events that left the log, so that positions rise. After much retention, the
 * first call reads thousands of records. So it must not be called in a transaction, which Postgres
 * ends when it idles.
 */
export async function withRemoved(
  last: EdgeTile | undefined,
  added: Leaf[],
  removed: RemovedLeaves | undefined,
): Promise<NewLeaf[]> {
  const woven = removed
    ? await removed.weave(sizeOf(last), added, ({ hash }) => hash)
    : added.map((leaf) => ({ leaf, removed: null }));
  const leaves: NewLeaf[] = [];
  let before = last?.last_position ?? 0n;
  let gone: RemovedLeaf[] = [];
  for (const { leaf, removed } of woven) {
    if (leaf === null) {
      gone.push(removed);
      continue;
    }
    const { event, hash } = leaf;
    for (const { position, hash, ...name } of gone) {
      // In a copy of the log, its position may lie anywhere.
      before = [before, position, event.position].sort(byPosition)[1] as bigint;
      leaves.push({ hash, name, position: before, event: null });
    }
    gone = [];
    before = event.position;
    leaves.push({ hash, name: event, position: before, event });
  }
  return leaves;
}

function byPosition(a: bigint, b: bigint): number {
  return a < b ? -1 : Number(a > b);
}
