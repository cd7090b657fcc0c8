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
import type { Queryable } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import type { Apply } from '../consumer.ts';
import type { Projection } from '../projection.ts';
import type { RemovedLeaves } from '../retention/removed-leaves.ts';
import { proofDifferences } from './differences.ts';
import {
  type EdgeTile,
  edgeAfter,
  grow,
  newLeaves,
  readEdge,
  toLeaf,
  withRemoved,
} from './growth.ts';
import { saveCheckpoints, saveKeys, saveTiles } from './save.ts';

export const proofProjection: Projection = {
  name: 'proof',
  version: 2,
  streams: [''],
  asStored: true,
  only: 'leaves',
  addsRemoved: true,
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
    const save = await prepare(tx, schema, events, removed);
    await save(tx);
  },

  prepare,

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
      const growth = grow(before, await withRemoved(before[0], events.map(toLeaf), removed));
      edge = edgeAfter(before, growth);
      return (statement) => {
        const moved = statement`exists (select from moved)`;
        return statement`, tiles as (${saveTiles(statement, schema, growth, moved)})`;
      };
    };
  },

  differences: proofDifferences,
};

/** Does the slow part before the transaction: it adds the leaves of events that left the log. */
async function prepare(
  sql: Queryable,
  schema: string,
  events: StoredEvent[],
  removed?: RemovedLeaves,
): Promise<Apply> {
  const edge = await readEdge(sql, schema);
  const added = await newLeaves(sql, schema, edge[0], events);
  if (added.length === 0) return async () => undefined;
  const growth = grow(edge, await withRemoved(edge[0], added, removed));
  return async (tx) => {
    await tx`${saveTiles(tx, schema, growth, tx`true`)}`;
    await saveCheckpoints(tx, schema, growth);
    await saveKeys(tx, schema, growth.leaves);
  };
}

function isOfTree(event: StoredEvent): boolean {
  return isCheckpointEvent(event) || isSigningKeyEvent(event);
}
