import type { Fragment, Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import { isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import {
  rangeHash,
  readNodes,
  sizeOf,
  TILE_WIDTH,
  type Tile,
  tilesOf,
} from '../../domain/proof/tiles.ts';
import { FoldError } from '../fold.ts';
import type { Growth, NewLeaf } from './growth.ts';
import { nameLine } from './leaves.ts';
import { readTiles } from './tiles.ts';

/** Returns the statement that writes tiles, if `condition` holds. */
export function saveTiles(
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

export async function saveCheckpoints(
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

export async function saveKeys(tx: Transaction, schema: string, leaves: NewLeaf[]): Promise<void> {
  for (const { event } of leaves) {
    if (event === null || !isSigningKeyEvent(event)) continue;
    const { key_id, public_key, key_record, since, statement } = event.data;
    // As the event says. `listSigningKeys` verifies the signatures.
    const signed = event.type === 'log.key_rotated' ? event.data.signed_by_previous : null;
    await tx`
      insert into ${tx(schema)}.proof_keys
        (revision, position, key_id, public_key, key_record, since, statement, signed_by_previous)
      values (${event.revision}, ${event.position}, ${key_id}, ${public_key}, ${key_record},
              ${since}, ${statement}, ${signed})`;
  }
}
