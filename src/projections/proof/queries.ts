import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Event } from '../../domain/events/event.ts';
import { SIGNING_KEYS } from '../../domain/events/streams.ts';
import { HASH_BYTES } from '../../domain/proof/hash.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import { TILE_WIDTH } from '../../domain/proof/tiles.ts';

/** A signed checkpoint, as the log has it. */
export interface SignedCheckpoint {
  /** Place in the stream of checkpoints, from 0. */
  revision: number;
  size: number;
  /** Lowercase hex. */
  root_hash: string;
  key_id: string;
  note: string;
  signed_at: string;
}

/** A public key that signs, or signed, checkpoints. */
export interface PublicKey {
  key_id: string;
  /** PEM. */
  public_key: string;
  since: string;
  /** When the next key followed; null for the one that signs now. */
  until: string | null;
  /** The signed note that names the key. */
  statement: string;
  /** False if the key before it was lost and did not sign the statement. Null for the first key. */
  signed_by_previous: boolean | null;
}

/** Returns all keys that signed checkpoints, oldest first, as the table has them. */
export function listSigningKeys(sql: Sql): Promise<PublicKey[]> {
  return sql<PublicKey[]>`
    select key_id, public_key, since, lead(since) over (order by revision) as until, statement,
           signed_by_previous
      from read.proof_keys order by revision`;
}

/** Returns all keys that signed checkpoints, oldest first, as the log has them. */
export async function signingKeysOfLog(store: Pick<EventStore, 'read'>): Promise<PublicKey[]> {
  const stored: Event[] = await store.read(SIGNING_KEYS);
  const events = stored.filter(isSigningKeyEvent);
  return events.map(({ type, data }, i) => ({
    key_id: data.key_id,
    public_key: data.public_key,
    since: data.since,
    until: events[i + 1]?.data.since ?? null,
    statement: data.statement,
    signed_by_previous: type === 'log.key_rotated' ? data.signed_by_previous : null,
  }));
}

/** Returns the public key with this id, in PEM; null if there is none. */
export async function findSigningKey(sql: Sql, keyId: string): Promise<string | null> {
  const [row] = await sql<{ public_key: string }[]>`
    select public_key from read.proof_keys where key_id = ${keyId}
     order by revision desc limit 1`;
  return row?.public_key ?? null;
}

/** Returns checkpoints, newest first, and their number. */
export async function listCheckpointsOfLog(
  sql: Sql,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ checkpoints: SignedCheckpoint[]; total: number }> {
  const [checkpoints, [last]] = await Promise.all([
    sql<SignedCheckpoint[]>`
      select ${columns(sql)} from read.proof_checkpoints
       order by revision desc limit ${limit} offset ${offset}`,
    sql<{ total: number }[]>`
      select coalesce(max(revision) + 1, 0) as total from read.proof_checkpoints`,
  ]);
  return { checkpoints, total: last?.total ?? 0 };
}

/** Returns the last checkpoint that the tree has; null if there is none. */
export async function latestCheckpoint(sql: Sql): Promise<SignedCheckpoint | null> {
  const [row] = await sql<SignedCheckpoint[]>`
    select ${columns(sql)} from read.proof_checkpoints order by revision desc limit 1`;
  return row ?? null;
}

/** Returns the checkpoint over this many leaves; null if there is none. */
export async function checkpointOfSize(sql: Sql, size: number): Promise<SignedCheckpoint | null> {
  const [row] = await sql<SignedCheckpoint[]>`
    select ${columns(sql)} from read.proof_checkpoints where size = ${size} limit 1`;
  return row ?? null;
}

/** Returns the first checkpoint that covers a leaf; null if none does yet. */
export async function checkpointOver(sql: Sql, leaf: number): Promise<SignedCheckpoint | null> {
  const [row] = await sql<SignedCheckpoint[]>`
    select ${columns(sql)} from read.proof_checkpoints where size > ${leaf}
     order by size limit 1`;
  return row ?? null;
}

function columns(sql: Sql) {
  return sql`revision, size::float8 as size, root_hash, key_id, note, signed_at`;
}

/**
 * Returns the number of leaves, and how many of those from `since` on are no checkpoints: what
 * happened that no checkpoint covers.
 */
export async function measureTree(
  sql: Queryable,
  since: number,
): Promise<{ size: number; happened: number }> {
  const [row] = await sql<{ size: number; checkpoints: number }[]>`
    select (t.tile::bigint * ${TILE_WIDTH} + length(t.hashes) / ${HASH_BYTES})::float8 as size,
           (select count(*)::integer from read.proof_checkpoints where leaf >= ${since})
             as checkpoints
      from (select * from read.proof_tiles where level = 0 order by tile desc limit 1) t`;
  if (row === undefined) return { size: 0, happened: 0 };
  return { size: row.size, happened: row.size - since - row.checkpoints };
}

/** Returns the position of the last event in the tree; 0 if the tree is empty. */
export async function foldedUntil(sql: Queryable): Promise<bigint> {
  const [row] = await sql<{ last_position: bigint }[]>`
    select last_position from read.proof_tiles where level = 0 order by tile desc limit 1`;
  return row?.last_position ?? 0n;
}
