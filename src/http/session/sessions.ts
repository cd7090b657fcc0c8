import { createHash, randomBytes } from 'node:crypto';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { SessionInfo } from './schemas.ts';

/** A session that is not used for so long ends. */
export const IDLE_MINUTES = 30;
/** However much it is used, no session lasts longer. */
export const ABSOLUTE_HOURS = 12;

/** Lowercase hex SHA-256: all that is kept of a session's token. Its randomness is full, so it needs no salt. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

export interface Sessions {
  /** Begins a session of a key, looking at the key's own account. Gives the token for its cookie, which is kept nowhere. */
  begin(keyId: string): Promise<string>;
  /** What a session's page shows of it; null where it has ended. */
  describe(sha256: string): Promise<SessionInfo | null>;
  /** Turns to another account. False where there is no such account. */
  switchAccount(sha256: string, accountId: string): Promise<boolean>;
  end(sha256: string): Promise<void>;
}

/** Sessions of the Admin Console. Whether one is still good is asked where requests are let in. */
export function createSessions(sql: Sql): Sessions {
  /** An account is there from the first key on that was made for it. */
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
               (select array_agg(account_id order by account_id) from (${accounts}) as a) as accounts,
               least(s.created_at + ${ABSOLUTE_HOURS} * interval '1 hour', k.expires_at) as expires_at
          from work.console_sessions s join read.keys k using (key_id)
         where token_sha256 = ${sha256}
           and s.used_at > now() - ${IDLE_MINUTES} * interval '1 minute' and s.created_at > now() - ${ABSOLUTE_HOURS} * interval '1 hour'`;
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
