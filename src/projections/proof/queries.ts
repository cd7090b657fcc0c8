import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Event } from '../../domain/events/event.ts';
import { SIGNING_KEYS } from '../../domain/events/streams.ts';
import { HASH_BYTES } from '../../domain/proof/hash.ts';
import { isSignedByPrevious } from '../../domain/proof/key-statement.ts';
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
  /**
   * Whether the key before it signed the statement, as the signatures prove: false if that was
   * lost, or if the event was forged. Null for the first key.
   */
  signed_by_previous: boolean | null;
}

type StatedKey = Omit<PublicKey, 'until' | 'signed_by_previous'>;

/** Returns all keys that signed checkpoints, oldest first, as the table has them. */
export async function listSigningKeys(sql: Sql, logId: string): Promise<PublicKey[]> {
  const keys = await sql<StatedKey[]>`
    select key_id, public_key, since, statement from read.proof_keys order by revision`;
  return withSigners(keys, logId);
}

/** Returns all keys that signed checkpoints, oldest first, as the log has them. */
export async function signingKeysOfLog(
  store: Pick<EventStore, 'read'>,
  logId: string,
): Promise<PublicKey[]> {
  const stored: Event[] = await store.read(SIGNING_KEYS);
  const events = stored.filter(isSigningKeyEvent);
  const keys = events.map(({ data: { key_id, public_key, since, statement } }) => ({
    ...{ key_id, public_key, since, statement },
  }));
  return withSigners(keys, logId);
}

/** What an event says of the key before it counts for nothing: the signatures tell. */
function withSigners(keys: StatedKey[], logId: string): PublicKey[] {
  return keys.map((key, i) => {
    const [previous, next] = [keys[i - 1], keys[i + 1]];
    const signed = previous ? isSignedByPrevious(key, previous, logId) : null;
    return { ...key, until: next?.since ?? null, signed_by_previous: signed };
  });
}

/** Returns the revision of the last key that the tree has; null if it has none. */
export async function lastKeyRevision(sql: Sql): Promise<number | null> {
  const [row] = await sql<{ revision: number | null }[]>`
    select max(revision) as revision from read.proof_keys`;
  return row?.revision ?? null;
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
