/*
 * The Merkle tree over the whole log, in tiles (src/domain/proof/tiles.ts), and what signs it: the
 * checkpoints and the public keys.
 *
 * Every event of the log is a leaf, in the order of the log, also those of streams that this
 * version does not know. A leaf is found by the position of its event: each tile of level 0 knows
 * the positions of its first and last event, and the hash of the leaf tells its place in the tile.
 * So the tree needs no row for each event. Positions are no part of the tree. A tile also names its
 * events, so that a removed event can be named. What left the log by retention stays in the tree.
 *
 * An event `log.checkpoint_signed` is compared with the tree when it is folded. If the tree of the
 * size that it signed has another root, the log was changed after it was signed. The fold stops
 * there, and so does a rebuild, which leaves the older tables in place.
 */
import type { Fragment, Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { HASH_BYTES, type Hash } from '../../domain/proof/hash.ts';
import { hashOfLeaf } from '../../domain/proof/leaf.ts';
import {
  extendTiles,
  rangeHash,
  readNodes,
  sizeOf,
  TILE_LEVELS,
  TILE_WIDTH,
  type Tile,
  tilesOf,
} from '../../domain/proof/tiles.ts';
import type { RemovedLeaf } from '../../domain/retention.ts';
import { isCheckpointEvent } from '../../domain/signed-checkpoint.ts';
import { isSigningKeyEvent } from '../../domain/signing-key.ts';
import { FoldError } from '../fold.ts';
import type { Difference, Projection } from '../projection.ts';
import type { RemovedLeaves } from '../retention/removed-leaves.ts';
import { type EventName, nameLine } from './leaves.ts';
import { findLeaves, type Leaf, readTiles } from './tiles.ts';

/** The last tile of a level. Those of level 0 have the position of their last event. */
interface EdgeTile extends Tile {
  last_position: bigint | null;
}

export const proofProjection: Projection = {
  name: 'proof',
  version: 2,
  streams: [''],
  asStored: true,
  only: 'leaves',
  tables: ['proof_tiles', 'proof_checkpoints', 'proof_keys'],
  // No request waits for it, and each batch writes the last tile of the tree again.
  gatherMs: 1_000,

  async create(tx, schema) {
    await tx`
      create table ${tx(schema)}.proof_tiles (
        level smallint not null,
        tile integer not null,
        -- up to 256 hashes of 32 bytes
        hashes bytea not null,
        -- of the events of a tile of level 0; null for the other levels
        first_position bigint,
        last_position bigint,
        -- of the events of a tile of level 0, a line each: only they tell what a removed event was
        names text collate "C",
        primary key (level, tile)
      )`;
    // Hashes cannot be compressed.
    await tx`alter table ${tx(schema)}.proof_tiles alter column hashes set storage external`;
    await tx`create index on ${tx(schema)}.proof_tiles (first_position) where level = 0`;
    await tx`
      create table ${tx(schema)}.proof_checkpoints (
        revision integer primary key,
        -- leaves of the tree that it signs, and the leaf that it is itself
        size bigint not null,
        leaf bigint not null,
        position bigint not null,
        root_hash text collate "C" not null,
        key_id text collate "C" not null,
        note text not null,
        signed_at timestamptz not null
      )`;
    await tx`create index on ${tx(schema)}.proof_checkpoints (size)`;
    await tx`create index on ${tx(schema)}.proof_checkpoints (leaf)`;
    await tx`
      create table ${tx(schema)}.proof_keys (
        revision integer primary key,
        position bigint not null,
        key_id text collate "C" not null,
        public_key text not null,
        key_record text collate "C" not null,
        since timestamptz not null,
        statement text not null,
        signed_by_previous boolean
      )`;
  },

  async apply(tx, schema, events, removed) {
    const edge = await readEdge(tx, schema);
    const added = await newLeaves(tx, schema, edge[0], events);
    if (added.length === 0) return;
    const growth = await grow(edge, added, removed);
    await tx`${saveTiles(tx, schema, growth, tx`true`)}`;
    await saveCheckpoints(tx, schema, growth);
    await saveKeys(tx, schema, growth.leaves);
  },

  createFill(sql, schema) {
    // The last tiles after the batch before, which may not be in the table yet. Null after a batch
    // that `apply` has written.
    let edge: EdgeTile[] | null = null;
    return async (events, removed) => {
      const before = edge ?? (await readEdge(sql, schema));
      edge = null;
      const until = before[0]?.last_position ?? 0n;
      const isSimple = events.every((event) => event.position > until && !isOfTree(event));
      if (events.length === 0 || !isSimple) return null;
      const growth = await grow(before, events.map(toLeaf), removed);
      edge = edgeAfter(before, growth);
      return (statement) => {
        const moved = statement`exists (select from moved)`;
        return statement`, tiles as (${saveTiles(statement, schema, growth, moved)})`;
      };
    };
  },

  async differences(tx, live, shadow, position, limit) {
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
  },
};

/** Returns the last tile of each level, from level 0 up. */
async function readEdge(tx: Queryable, schema: string): Promise<EdgeTile[]> {
  return tx<EdgeTile[]>`
    select t.level, t.tile, t.hashes, t.last_position
      from generate_series(0, ${TILE_LEVELS - 1}) l
     cross join lateral (
       select * from ${tx(schema)}.proof_tiles where level = l order by tile desc limit 1) t
     order by t.level`;
}

/** Returns the leaves of the events that the tree does not have yet. */
async function newLeaves(
  tx: Transaction,
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

function toLeaf(event: StoredEvent): Leaf {
  return { event, hash: event.leaf_hash ?? hashOfLeaf(event) };
}

function isOfTree(event: StoredEvent): boolean {
  return isCheckpointEvent(event) || isSigningKeyEvent(event);
}

/**
 * What a batch adds to a tree of `size` leaves. `tiles` has those that changed, in their last
 * state.
 */
interface Growth {
  size: number;
  leaves: NewLeaf[];
  tiles: Tile[];
}

async function grow(
  edge: EdgeTile[],
  added: Leaf[],
  removed: RemovedLeaves | undefined,
): Promise<Growth> {
  const size = sizeOf(edge[0]);
  const leaves = await withRemoved(removed, size, edge[0]?.last_position ?? 0n, added);
  const tiles = extendTiles(
    edge,
    leaves.map(({ hash }) => hash),
  );
  return { size, leaves, tiles };
}

function edgeAfter(before: EdgeTile[], { leaves, tiles }: Growth): EdgeTile[] {
  const last_position = leaves.at(-1)?.position ?? null;
  const last = new Map(before.map((tile) => [tile.level, tile]));
  for (const tile of tiles)
    last.set(tile.level, { ...tile, last_position: tile.level === 0 ? last_position : null });
  return [...last.values()];
}

/** A leaf to save. `event` is null if the event left the log. */
interface NewLeaf {
  hash: Hash;
  name: EventName;
  position: bigint;
  event: StoredEvent | null;
}

/** Adds the leaves of events that left the log, so that positions rise. */
async function withRemoved(
  removed: RemovedLeaves | undefined,
  size: number,
  after: bigint,
  added: Leaf[],
): Promise<NewLeaf[]> {
  const woven = removed
    ? await removed.weave(size, added, ({ hash }) => hash)
    : added.map((leaf) => ({ leaf, removed: null }));
  const leaves: NewLeaf[] = [];
  let before = after;
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

/** Returns the statement that writes tiles, if `condition` holds. */
function saveTiles(
  sql: Queryable,
  schema: string,
  { size, leaves, tiles }: Growth,
  condition: Fragment,
): Fragment {
  const positionOf = (index: number) => leaves[index - size]?.position;
  const rows = tiles.map(({ level, tile, hashes }) => {
    const first = tile * TILE_WIDTH;
    const isLeaves = level === 0;
    const end = sizeOf({ level, tile, hashes });
    const added = isLeaves ? leaves.slice(Math.max(first - size, 0), end - size) : [];
    return {
      level,
      tile,
      hex: Buffer.from(hashes).toString('hex'),
      // Undefined for a tile that was there before: the position that it has stays.
      first: isLeaves ? positionOf(first) : undefined,
      last: isLeaves ? positionOf(end - 1) : undefined,
      names: isLeaves ? added.map(({ name }) => nameLine(name)).join('\n') : null,
    };
  });
  const numbers = (values: (bigint | undefined)[]) => values.map((value) => value?.toString());
  return sql`
    insert into ${sql(schema)}.proof_tiles as t
      (level, tile, hashes, first_position, last_position, names)
    select n.level, n.tile, decode(n.hex, 'hex'), n.first, n.last, n.names
      from unnest(${rows.map(({ level }) => level)}::integer[],
                  ${rows.map(({ tile }) => tile)}::integer[],
                  ${rows.map(({ hex }) => hex)}::text[],
                  ${numbers(rows.map(({ first }) => first))}::bigint[],
                  ${numbers(rows.map(({ last }) => last))}::bigint[],
                  ${rows.map(({ names }) => names)}::text[])
           as n(level, tile, hex, first, last, names)
     where ${condition}
    on conflict (level, tile) do update set
      hashes = excluded.hashes, last_position = excluded.last_position,
      names = t.names || E'\n' || excluded.names`;
}

async function saveCheckpoints(
  tx: Transaction,
  schema: string,
  { size, leaves, tiles }: Growth,
): Promise<void> {
  for (const [i, { event }] of leaves.entries()) {
    if (event === null || !isCheckpointEvent(event)) continue;
    const { revision, position, data } = event;
    await compareRoot(tx, schema, tiles, size + i, event, data);
    await tx`
      insert into ${tx(schema)}.proof_checkpoints
        (revision, size, leaf, position, root_hash, key_id, note, signed_at)
      values (${revision}, ${data.size}, ${size + i}, ${position}, ${data.root_hash},
              ${data.key_id}, ${data.note}, ${data.signed_at})`;
  }
}

/** Throws FoldError if the tree that a checkpoint signed is not the tree of this log. */
async function compareRoot(
  tx: Transaction,
  schema: string,
  changed: Tile[],
  leaf: number,
  event: StoredEvent,
  signed: { size: number; root_hash: string },
): Promise<void> {
  if (!(signed.size > 0 && signed.size <= leaf))
    throw new FoldError(event, `it signs a tree of ${signed.size} leaves and is leaf ${leaf}`);
  const range = { start: 0, end: signed.size };
  const tiles = new Map(changed.map((tile) => [`${tile.level}/${tile.tile}`, tile]));
  const missing = tilesOf([range]).filter(({ level, tile }) => !tiles.has(`${level}/${tile}`));
  const node = readNodes([...changed, ...(await readTiles(tx, schema, missing))]);
  const root = Buffer.from(rangeHash(range, node) as Hash).toString('hex');
  if (root !== signed.root_hash)
    throw new FoldError(
      event,
      `the first ${signed.size} events of this log have the root ${root}, and the signed ` +
        `checkpoint says ${signed.root_hash}: the log was changed after it was signed`,
    );
}

async function saveKeys(tx: Transaction, schema: string, leaves: NewLeaf[]): Promise<void> {
  for (const { event } of leaves) {
    if (event === null || !isSigningKeyEvent(event)) continue;
    const { key_id, public_key, key_record, since, statement } = event.data;
    const signed = event.type === 'log.key_rotated' ? event.data.signed_by_previous : null;
    await tx`
      insert into ${tx(schema)}.proof_keys
        (revision, position, key_id, public_key, key_record, since, statement, signed_by_previous)
      values (${event.revision}, ${event.position}, ${key_id}, ${public_key}, ${key_record},
              ${since}, ${statement}, ${signed})`;
  }
}
