import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Role } from '../../domain/role.ts';
import type { Scope } from '../../domain/scope.ts';
import { noteKeyUse } from '../../projections/catalog/key-use.ts';
import type { Client } from './client.ts';
import { noteSessionUse, sessionWith } from './sessions.ts';

/** The key or session token of a request, as its SHA-256. */
export interface Credential {
  kind: 'key' | 'session';
  sha256: string;
}

export type Standing = 'valid' | 'expired' | 'revoked' | 'unknown';

export type Identity =
  | { standing: 'valid'; client: Client }
  /** `keyId` is that of a known key that is no longer valid. */
  | { standing: Exclude<Standing, 'valid'>; client: null; keyId: string | null };

interface KeyRow {
  key_id: string | null;
  account_id: string;
  scopes: Scope[];
  standing: Standing;
  /** The actor of a person. */
  actor: string | null;
  unconfirmed: boolean;
}

/** A row of `lookUp`. All columns are null if there is no such key or session. */
export interface FoundRow extends Omit<KeyRow, 'standing'> {
  standing: Standing | null;
  /** The recorded last use of the session is more than a minute old. */
  unnoted: boolean | null;
  /** Seconds until the key expires. Null for a session, and if the key never does. */
  expires_in: number | null;
}

/**
 * Returns the query that finds a key or a session. It reads the hashes from the columns `key` and
 * `session` of `v`, one of which is null. Join it with `left join lateral`.
 */
export function lookUp(sql: Sql) {
  return sql`
    select key_id, account_id, scopes, ${standingOfKey(sql)} as standing, false as unnoted,
           null as actor, false as unconfirmed,
           extract(epoch from expires_at - now())::float8 as expires_in
      from read.keys where sha256 = v.key
    union all
    select key_id, s.account_id, coalesce(s.scopes, k.scopes),
           case when s.expired then 'expired'
                when s.actor is not null then 'valid'
                else ${standingOfKey(sql)} end,
           s.unnoted, s.actor, s.unconfirmed, null
      from (${sessionWith(sql, sql`v.session`)}) s left join read.keys k using (key_id)
     where s.actor is not null or k.key_id is not null`;
}

/** Finds a key by its hash, without counting the request. `role` is null for a key with scopes. */
export async function findKey(sql: Sql, sha256: string): Promise<Identity & { role: Role | null }> {
  const [row] = await sql<(KeyRow & { role: Role | null })[]>`
    select key_id, account_id, scopes, ${standingOfKey(sql)} as standing, null as actor,
           false as unconfirmed, state ->> 'role' as role
      from read.keys where sha256 = ${sha256}`;
  return { ...identify(row ?? null, null), role: row?.role ?? null };
}

/** Expects a row of `read.keys`. */
function standingOfKey(sql: Sql) {
  return sql`
    case when revoked_at is not null then 'revoked'
         when expires_at <= now() then 'expired'
         else 'valid' end`;
}

/**
 * Returns the identity of a row. `session` is the hash of the session that the row was found by.
 */
export function identify(
  row: Pick<FoundRow, keyof KeyRow> | null,
  session: string | null,
): Identity {
  if (row?.standing !== 'valid')
    return { standing: row?.standing ?? 'unknown', client: null, keyId: row?.key_id ?? null };
  const { key_id: keyId, account_id: accountId, scopes, unconfirmed } = row;
  const actor = row.actor ?? `${session === null ? 'key' : 'console'}:${keyId}`;
  return {
    standing: 'valid',
    client: { actor, keyId, accountId, scopes, session, unconfirmed },
  };
}

/** Records the last use of a client's key and session, to the minute. */
export async function noteUse(
  sql: Sql,
  { keyId, session }: Client,
  due: { key: boolean; session: boolean },
): Promise<void> {
  if (due.key && keyId !== null) await noteKeyUse(sql, keyId);
  if (due.session && session !== null) await noteSessionUse(sql, session);
}
