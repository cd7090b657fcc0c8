import type { Sql } from '../adapters/postgres/connect.ts';
import type { Scope } from '../domain/key.ts';
import { noteKeyUse } from '../projections/key-use.ts';
import { noteSessionUse, sessionWith } from './session/sessions.ts';

/** The client that a valid key or session identifies. */
export interface Client {
  keyId: string;
  /** The key's account. For a session, the account that the session has selected. */
  accountId: string;
  scopes: Scope[];
  /** SHA-256 of the console session's token. Null for a request with a key. */
  session: string | null;
}

/** The key or session token of a request, as its SHA-256. */
export interface Credential {
  kind: 'key' | 'session';
  sha256: string;
}

export type Standing = 'valid' | 'expired' | 'revoked' | 'unknown';

export type Identity =
  | { standing: 'valid'; client: Client }
  | { standing: Exclude<Standing, 'valid'>; client: null };

interface KeyRow {
  key_id: string;
  account_id: string;
  scopes: Scope[];
  standing: Standing;
}

/** A row of `lookUp`. All columns are null if there is no such key or session. */
export interface FoundRow extends Omit<KeyRow, 'standing'> {
  standing: Standing | null;
  /** The recorded last use of the session is more than a minute old. */
  unnoted: boolean | null;
}

/**
 * Returns the query that finds a key or a session. It reads the hashes from the columns `key` and
 * `session` of `v`, one of which is null. Join it with `left join lateral`.
 */
export function lookUp(sql: Sql) {
  return sql`
    select key_id, account_id, scopes, ${standingOfKey(sql)} as standing, false as unnoted
      from read.keys where sha256 = v.key
    union all
    select key_id, s.account_id, scopes,
           case when ${standingOfKey(sql)} <> 'valid' then ${standingOfKey(sql)}
                when s.expired then 'expired'
                else 'valid' end,
           s.unnoted
      from (${sessionWith(sql, sql`v.session`)}) s join read.keys using (key_id)`;
}

/** Finds a key by its hash, without counting the request. */
export async function findKey(sql: Sql, sha256: string): Promise<Identity> {
  const [row] = await sql<KeyRow[]>`
    select key_id, account_id, scopes, ${standingOfKey(sql)} as standing
      from read.keys where sha256 = ${sha256}`;
  return identify(row ?? null, null);
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
  if (row?.standing !== 'valid') return { standing: row?.standing ?? 'unknown', client: null };
  const { key_id: keyId, account_id: accountId, scopes } = row;
  return { standing: 'valid', client: { keyId, accountId, scopes, session } };
}

/** Records the last use of a client's key and session, to the minute. */
export async function noteUse(
  sql: Sql,
  { keyId, session }: Client,
  due: { key: boolean; session: boolean },
): Promise<void> {
  if (due.key) await noteKeyUse(sql, keyId);
  if (due.session && session !== null) await noteSessionUse(sql, session);
}
