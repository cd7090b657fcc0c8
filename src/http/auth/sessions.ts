import { createHash, randomBytes } from 'node:crypto';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { SessionInfo } from '../../contract/sessions.ts';
import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { actorOf, type Person } from '../../domain/person.ts';
import {
  accountsOf,
  allGranted,
  EVERY_ACCOUNT,
  type Role,
  type RoleGrant,
  scopesIn,
} from '../../domain/role.ts';
import { grants, type Scope } from '../../domain/scope.ts';
import { SESSION_HOURS, SESSION_IDLE_MINUTES } from '../../domain/session.ts';

/** How often the use of a session is recorded. */
const NOTED_AFTER_MINUTES = 1;
/**
 * A person's session ends this long after the provider last confirmed the person's roles: five
 * minutes, less the time until an event stream checks its session again.
 */
const CONFIRMED_MINUTES = 4.75;
/** From this age on, each request tries to have them confirmed again. */
const CONFIRM_AFTER_MINUTES = 4;
/** Rows of ended sessions are removed after this time. A Postgres interval. */
const SESSIONS_KEPT = '24 hours';

/**
 * Returns the lowercase hex SHA-256, the only stored form of a session's token. A random token
 * needs no salt.
 */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

export interface SignedInPerson extends Person {
  /** The provider's page that ends its own session, or null if it has none. */
  sign_out_url: string | null;
}

/** What the provider has confirmed about a person. */
export interface Confirmation {
  /** At least one. */
  roles: RoleGrant[];
  /** The record of the vault that holds the tokens. */
  tokensRecord: string;
}

/** The session of a person, for the next confirmation. */
export interface PersonSession {
  person: SignedInPerson;
  tokensRecord: string;
  account: string;
  scopes: Scope[];
  /** It is time to confirm the roles. */
  due: boolean;
  /** The roles were confirmed too long ago. */
  overdue: boolean;
}

export interface Sessions {
  /**
   * Starts a session of a key, in the key's own account. Returns the token for its cookie. The
   * token itself is not stored.
   */
  begin(keyId: string): Promise<string>;
  /** Starts a session of a person, in the account of the first role. Returns the token. */
  beginPerson(person: SignedInPerson, confirmation: Confirmation): Promise<string>;
  /** Returns what the console shows of a session, or null if the session has ended. */
  describe(sha256: string): Promise<SessionInfo | null>;
  /** Switches to another account. Returns false if the session may not use it. */
  switchAccount(sha256: string, accountId: string): Promise<boolean>;
  /** Returns the session of a person, or null if there is none. */
  findPerson(sha256: string): Promise<PersonSession | null>;
  /**
   * Records that the provider has confirmed the person's roles just now. Returns false if they give
   * nothing in the session's account: another account would get what was meant for this one.
   */
  confirm(sha256: string, roles: RoleGrant[]): Promise<boolean>;
  /** Stores the tokens that the provider gave in exchange for earlier ones. */
  keepTokens(sha256: string, tokensRecord: string): Promise<void>;
  end(sha256: string): Promise<void>;
}

/**
 * Selects the session with the token hash `hash`, an expression: its key (null for a person), its
 * account, the person's actor and scopes, whether it has `expired`, whether its recorded last use
 * is more than a minute old (`unnoted`), and whether the person's roles need to be confirmed.
 */
export function sessionWith(sql: Sql, hash: ReturnType<Sql>) {
  return sql`
    select key_id, account_id, actor, scopes,
           ${hasExpired(sql)} as expired,
           used_at < now() - ${NOTED_AFTER_MINUTES} * interval '1 minute' as unnoted,
           coalesce(${olderThan(sql, CONFIRM_AFTER_MINUTES)}, false) as unconfirmed
      from work.console_sessions s where token_sha256 = ${hash}`;
}

/** Returns the condition that a row `s` is of a session that has ended by its age or disuse. */
function hasExpired(sql: Sql) {
  return sql`
    (s.used_at <= now() - ${SESSION_IDLE_MINUTES} * interval '1 minute'
      or s.created_at <= now() - ${SESSION_HOURS} * interval '1 hour')`;
}

/**
 * Returns the condition that the last confirmation is older than this. One of the future has an
 * unknown age, because Postgres's clock has stepped back, and counts as older. `now()` is the start
 * of a statement, which another process may confirm a moment later.
 */
function olderThan(sql: Sql, minutes: number) {
  return sql`
    (confirmed_at <= now() - ${minutes} * interval '1 minute'
      or confirmed_at > now() + interval '5 seconds')`;
}

/** Records that a session is in use. */
export async function noteSessionUse(sql: Sql, sha256: string): Promise<void> {
  await sql`update work.console_sessions set used_at = now() where token_sha256 = ${sha256}`;
}

/** Removes sessions that nothing has used for a day, and ended ones that hold a person's tokens. */
export async function removeOldSessions(sql: Sql): Promise<void> {
  await sql`
    delete from work.console_sessions s
     where used_at < now() - ${SESSIONS_KEPT}::interval
        or person is not null and ${hasExpired(sql)}`;
}

/** Returns which of these vault records hold the tokens of a session. */
export async function recordsOfSessions(sql: Sql, recordIds: string[]): Promise<string[]> {
  const rows = await sql<{ record: string }[]>`
    select tokens_record as record from work.console_sessions
     where tokens_record = any(${recordIds})`;
  return rows.map(({ record }) => record);
}

interface DescribedRow {
  key_id: string | null;
  key_name: string | null;
  key_account: string | null;
  key_role: Role | null;
  person: SignedInPerson | null;
  roles: RoleGrant[] | null;
  scopes: Scope[];
  account: string;
  known: string[] | null;
  expires_at: string;
}

/**
 * Creates the sessions of the Admin Console. `identity.ts` checks on each request that a session is
 * still valid.
 */
export function createSessions(sql: Sql): Sessions {
  async function find(sha256: string): Promise<DescribedRow | null> {
    const [row] = await sql<DescribedRow[]>`
      select s.key_id, k.name as key_name, k.account_id as key_account,
             k.state ->> 'role' as key_role, person, roles,
             coalesce(s.scopes, k.scopes) as scopes, s.account_id as account,
             (select array_agg(distinct account_id) from read.keys) as known,
             least(s.created_at + ${SESSION_HOURS} * interval '1 hour',
                   k.expires_at) as expires_at
        from work.console_sessions s left join read.keys k using (key_id)
       where token_sha256 = ${sha256}
         and (person is not null or k.key_id is not null)
         and not ${hasExpired(sql)}
         and not coalesce(${olderThan(sql, CONFIRMED_MINUTES)}, false)`;
    return row ?? null;
  }

  return {
    async begin(keyId) {
      const token = randomBytes(32).toString('base64url');
      await sql`
        insert into work.console_sessions (token_sha256, key_id, account_id)
        select ${hashToken(token)}, key_id, account_id from read.keys where key_id = ${keyId}`;
      return token;
    },

    async beginPerson(person, { roles, tokensRecord }) {
      const token = randomBytes(32).toString('base64url');
      const account = firstAccount(roles);
      await sql`
        insert into work.console_sessions
          (token_sha256, account_id, person, actor, roles, scopes, tokens_record, confirmed_at)
        values (${hashToken(token)}, ${account}, ${sql.json(person as never)},
                ${actorOf(person)}, ${sql.json(roles as never)},
                ${scopesIn(roles, account)}::text[], ${tokensRecord}, now())`;
      return token;
    },

    async describe(sha256) {
      const row = await find(sha256);
      if (row === null) return null;
      const { key_id, key_name, key_role, person, account, scopes, expires_at } = row;
      const ofAccount = row.roles?.filter((role) =>
        [account, EVERY_ACCOUNT].includes(role.account),
      );
      return {
        key_id,
        key_name,
        person: person && { subject: person.subject, name: person.name, email: person.email },
        account,
        accounts: accountsFor(row),
        roles: ofAccount?.map(({ role }) => role) ?? (key_role === null ? [] : [key_role]),
        scopes: allGranted(scopes),
        sign_out_url: person?.sign_out_url ?? null,
        expires_at,
      };
    },

    async switchAccount(sha256, accountId) {
      const row = await find(sha256);
      if (row === null || !accountsFor(row).includes(accountId)) return false;
      const scopes = row.roles && scopesIn(row.roles, accountId);
      // Does nothing if the roles have changed since: the scopes would not be theirs.
      const { count } = await sql`
        update work.console_sessions set account_id = ${accountId}, scopes = ${scopes}::text[]
         where token_sha256 = ${sha256}
           and roles is not distinct from ${row.roles && sql.json(row.roles as never)}`;
      return count > 0;
    },

    async findPerson(sha256) {
      const [row] = await sql<[PersonSession?]>`
        select person, tokens_record as "tokensRecord", account_id as account, scopes,
               ${olderThan(sql, CONFIRM_AFTER_MINUTES)} as due,
               ${olderThan(sql, CONFIRMED_MINUTES)} as overdue
          from work.console_sessions where token_sha256 = ${sha256} and person is not null`;
      return row ?? null;
    },

    confirm: (sha256, roles) =>
      sql.begin(async (tx) => {
        const [row] = await tx<[{ account: string }?]>`
          select account_id as account from work.console_sessions
           where token_sha256 = ${sha256} for update`;
        const scopes = row ? scopesIn(roles, row.account) : [];
        if (scopes.length === 0) return false;
        await tx`
          update work.console_sessions
             set roles = ${tx.json(roles as never)}, scopes = ${scopes}::text[],
                 confirmed_at = now()
           where token_sha256 = ${sha256}`;
        return true;
      }),

    async keepTokens(sha256, tokensRecord) {
      await sql`
        update work.console_sessions set tokens_record = ${tokensRecord}
         where token_sha256 = ${sha256}`;
    },

    async end(sha256) {
      await sql`delete from work.console_sessions where token_sha256 = ${sha256}`;
    },
  };
}

/**
 * A key sees its own account, with the scope `admin` each one. A person sees those of its roles.
 */
function accountsFor({ roles, scopes, key_account, known }: DescribedRow): string[] {
  const all = [...(known ?? []), DEFAULT_ACCOUNT];
  if (roles !== null) return accountsOf(roles, all);
  return grants(scopes, 'admin') ? [...new Set(all)].sort() : [key_account as string];
}

function firstAccount([first]: RoleGrant[]): string {
  const { account } = first as RoleGrant;
  return account === EVERY_ACCOUNT ? DEFAULT_ACCOUNT : account;
}
