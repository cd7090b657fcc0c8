import type { FastifyBaseLogger } from 'fastify';
import {
  type Confirmed,
  createIdentityProvider,
  type IdentityProvider,
  IdentityProviderError,
  type Tokens,
} from '../../adapters/identity-provider.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import { SESSION_TOKENS, type Vault, VaultError } from '../../adapters/vault.ts';
import type { OidcSettings } from '../../config.ts';
import { DomainError, reasonOf } from '../../domain/errors.ts';
import { type Claims, personOf } from '../../domain/person.ts';
import { grantsOf, type RoleGrant, valuesOf } from '../../domain/role.ts';
import type { Client } from './client.ts';
import { createSessions, type PersonSession } from './sessions.ts';

/** How long a request waits for another one that confirms the same session. */
const LOCK_WITHIN_MS = 15_000;
/** After a failure of the provider, confirmations that are not overdue wait this long. */
const RETRY_AFTER_MS = 10_000;

const UNREACHABLE =
  'The identity provider does not answer, so it cannot confirm your role. Sign in with an API key ' +
  'meanwhile';
const REMOVED = 'The identity provider no longer gives you a role for Waybill';
const MOVED = 'You no longer have a role in this account: sign in again to use another one';
const REJECTED = 'The identity provider no longer confirms your sign-in: sign in again';

export interface PeopleDeps {
  sql: Sql;
  vault: Vault;
  locks: Locks;
  logger: Pick<FastifyBaseLogger, 'info' | 'warn'>;
  config: { oidc: OidcSettings | null };
}

/** People who sign in through an identity provider. */
export interface People {
  /** Null if none is configured. */
  provider: IdentityProvider | null;
  /** Returns the roles that the claims give, in the order of the setting. */
  rolesOf(claims: Claims): RoleGrant[];
  /** Starts the session of a person. Returns the token for its cookie, or null without a role. */
  begin(confirmed: Confirmed, signOutUrl: string | null): Promise<string | null>;
  /**
   * Asks the provider to confirm the roles of a session's person. Returns the client with its
   * current roles. While the provider does not answer, the last confirmation holds for five
   * minutes. After that, or without a role, it ends the session and throws `session_ended`.
   */
  confirm(client: Client & { session: string }): Promise<Client>;
}

export function createPeople({ sql, vault, locks, logger, config }: PeopleDeps): People {
  const { oidc } = config;
  const provider = oidc === null ? null : createIdentityProvider(oidc);
  const sessions = createSessions(sql);
  /** Confirmations under way in this process, by session. */
  const running = new Map<string, Promise<PersonSession>>();
  let retryAt = 0;

  const rolesOf = (claims: Claims) => grantsOf(claims, oidc?.roles ?? []);

  /** Ends the session. Its tokens go with the next sweep of the vault. */
  async function end(session: string, detail: string, reason: unknown): Promise<never> {
    logger.info({ reason: reasonOf(reason) }, 'the console session of a person has ended');
    await sessions.end(session);
    throw new DomainError('session_ended', detail);
  }

  async function find(session: string): Promise<PersonSession> {
    const found = await sessions.findPerson(session);
    if (found === null) throw new DomainError('session_ended', REJECTED);
    return found;
  }

  /** One at a time in the installation: a provider may accept each refresh token only once. */
  async function confirmAlone(session: string): Promise<PersonSession> {
    const name = `console_session:${session}`;
    const lock = await locks
      .acquire(name, AbortSignal.timeout(LOCK_WITHIN_MS))
      .catch((error: unknown) => {
        throw new DomainError(
          'unavailable',
          'The identity provider does not answer another request of this session yet',
          {},
          { cause: error },
        );
      });
    try {
      const found = await find(session);
      const waits = !found.overdue && performance.now() < retryAt;
      return found.due && !waits ? await ask(session, found) : found;
    } finally {
      await lock.release();
    }
  }

  async function ask(session: string, found: PersonSession): Promise<PersonSession> {
    if (provider === null) return end(session, REJECTED, 'no provider is configured');
    const tokens = await vault
      .open<Tokens>(found.tokensRecord, SESSION_TOKENS)
      .catch((error: unknown) => {
        if (error instanceof VaultError) return end(session, REJECTED, error);
        throw error;
      });
    try {
      const claims = await provider.confirm(found.person.subject, tokens, async (fresh) =>
        sessions.keepTokens(session, await vault.seal(SESSION_TOKENS, fresh)),
      );
      const roles = rolesOf(claims);
      if (roles.length === 0) return await end(session, REMOVED, 'no role');
      if (!(await sessions.confirm(session, roles)))
        return await end(session, MOVED, 'no role in the account of the session');
      return await find(session);
    } catch (error) {
      if (!(error instanceof IdentityProviderError)) throw error;
      if (error.fault !== 'unreachable') return end(session, REJECTED, error);
      if (found.overdue) return end(session, UNREACHABLE, error);
      retryAt = performance.now() + RETRY_AFTER_MS;
      logger.warn({ reason: reasonOf(error) }, 'the identity provider did not confirm a role');
      return found;
    }
  }

  return {
    provider,
    rolesOf,

    async begin({ claims, tokens }, signOutUrl) {
      const person = { ...personOf(claims), sign_out_url: signOutUrl };
      const roles = rolesOf(claims);
      if (roles.length === 0) {
        const asked = [...new Set((oidc?.roles ?? []).map(({ claim }) => claim))];
        const found = Object.fromEntries(asked.map((claim) => [claim, valuesOf(claims, claim)]));
        logger.warn(
          { subject: person.subject, claims: found },
          'a person without a role tried to sign in: no rule of WAYBILL_OIDC_ROLES matches',
        );
        return null;
      }
      const tokensRecord = await vault.seal(SESSION_TOKENS, tokens);
      return sessions.beginPerson(person, { roles, tokensRecord });
    },

    async confirm(client) {
      const { session } = client;
      const confirmation =
        running.get(session) ?? confirmAlone(session).finally(() => running.delete(session));
      running.set(session, confirmation);
      const { account, scopes } = await confirmation;
      return { ...client, accountId: account, scopes, unconfirmed: false };
    },
  };
}
