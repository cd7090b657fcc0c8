import type { Sql } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import type { Client } from './client.ts';
import { createSessions } from './sessions.ts';

/**
 * Returns true while the key or session of a client is valid, and a session still has the account
 * and the scopes that it had.
 */
export async function stillValid(sql: Sql, client: Client): Promise<boolean> {
  const { keyId, accountId, scopes, session } = client;
  if (session !== null) {
    const now = await createSessions(sql).describe(session);
    if (now?.account !== accountId) return false;
    if (!scopes.every((scope) => now.scopes.includes(scope))) return false;
  }
  if (keyId === null) return true;
  const keys = await sql`
    select from read.keys
     where key_id = ${keyId} and revoked_at is null and coalesce(expires_at > now(), true)`;
  return keys.length > 0;
}

/** Returns the error of a request whose client lost its access after it was admitted. */
export function lostAccess({ session }: Client): DomainError {
  return session === null
    ? new DomainError('api_key_revoked', 'The API key was revoked or has expired meanwhile')
    : new DomainError('session_ended', 'The session of the Admin Console has ended meanwhile');
}
