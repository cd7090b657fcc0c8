import { createHash, randomBytes } from 'node:crypto';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { SessionInfo } from '../../contract/sessions.ts';

/** A session ends after this time without use. */
export const IDLE_MINUTES = 30;
/** A session ends after this time in any case. */
export const ABSOLUTE_HOURS = 12;
/** Rows of ended sessions are removed after this time. A Postgres interval. */
const SESSIONS_KEPT = '24 hours';

/**
 * Returns the lowercase hex SHA-256, the only stored form of a session's token. A random token
 * needs no salt.
 */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

export interface Sessions {
  /**
   * Starts a session of a key, in the key's own account. Returns the token for its cookie. The
   * token itself is not stored.
   */
  begin(keyId: string): Promise<string>;
  /** Returns what the console shows of a session, or null if the session has ended. */
  describe(sha256: string): Promise<SessionInfo | null>;
  /** Switches to another account. Returns false if there is no such account. */
  switchAccount(sha256: string, accountId: string): Promise<boolean>;
  end(sha256: string): Promise<void>;
}

/**
 * Selects the session with the token hash `hash`, an expression: its key and account, whether it
 * has `expired`, and whether its recorded last use is more than a minute old (`unnoted`).
 */
export function sessionWith(sql: Sql, hash: ReturnType<Sql>) {
  return sql`
    select key_id, account_id,
           used_at <= now() - ${IDLE_MINUTES} * interval '1 minute'
             or created_at <= now() - ${ABSOLUTE_HOURS} * interval '1 hour' as expired,
           used_at < now() - interval '1 minute' as unnoted
      from work.console_sessions where token_sha256 = ${hash}`;
}

/** Records that a session is in use. */
export async function noteSessionUse(sql: Sql, sha256: string): Promise<void> {
  await sql`update work.console_sessions set used_at = now() where token_sha256 = ${sha256}`;
}

/** Removes sessions that nothing has used for a day. */
export async function removeOldSessions(sql: Sql): Promise<void> {
  await sql`
    delete from work.console_sessions where used_at < now() - ${SESSIONS_KEPT}::interval`;
}

/**
 * Creates the sessions of the Admin Console. `identity.ts` checks on each request that a session is
 * still valid.
 */
export function createSessions(sql: Sql): Sessions {
  /** An account exists once it has had a key. `acc_default` always exists. */
  const accounts = sql`select account_id from read.keys union select 'acc_default'`;

  return {
    async begin(keyId) {
      const token = randomBytes(32).toString('base64url');
      await sql`
        insert into work.console_sessions (token_sha256, key_id, account_id)
        select ${hashToken(token)}, key_id, account_id from read.keys where key_id = ${keyId}`;
      return token;
    },

    async describe(sha256) {
      const [row] = await sql<SessionInfo[]>`
        select key_id, k.name as key_name, s.account_id as account,
               (select array_agg(account_id order by account_id)
                  from (${accounts}) as a) as accounts,
               least(s.created_at + ${ABSOLUTE_HOURS} * interval '1 hour',
                     k.expires_at) as expires_at
          from work.console_sessions s join read.keys k using (key_id)
         where token_sha256 = ${sha256}
           and s.used_at > now() - ${IDLE_MINUTES} * interval '1 minute'
           and s.created_at > now() - ${ABSOLUTE_HOURS} * interval '1 hour'`;
      return row ?? null;
    },

    async switchAccount(sha256, accountId) {
      const { count } = await sql`
        update work.console_sessions set account_id = ${accountId}
         where token_sha256 = ${sha256} and ${accountId} in (${accounts})`;
      return count > 0;
    },

    async end(sha256) {
      await sql`delete from work.console_sessions where token_sha256 = ${sha256}`;
    },
  };
}
