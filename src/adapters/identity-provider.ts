import type * as openid from 'openid-client';
import type { Claims } from '../domain/person.ts';

/** Time limit of each request to the provider, in seconds. */
const TIMEOUT_SECONDS = 5;
/** Tolerated difference between the provider's clock and ours, in seconds. */
const CLOCK_TOLERANCE_SECONDS = 60;
/** The provider's addresses are read again after this time. */
const METADATA_KEPT_MS = 3_600_000;
/**
 * Scopes to request besides `openid`, if the provider has them. Most providers need one of the last
 * two before they send groups, or a refresh token.
 */
const OPTIONAL_SCOPES = ['profile', 'email', 'groups', 'offline_access'];

export interface ProviderSettings {
  /** The issuer's URL. Plain http is for tests on the same machine. */
  issuer: string;
  clientId: string;
  clientSecret: string;
}

/** What a sign-in must bring back. Only the browser that started it may know this. */
export interface PendingSignIn {
  state: string;
  nonce: string;
  verifier: string;
}

/** With these, the provider confirms what it said about a person. */
export interface Tokens {
  access: string;
  /** Null if the provider gives none. Then `access` serves until it expires. */
  refresh: string | null;
}

export interface Confirmed {
  /** The claims of the ID token and of the user info. Always has `sub`. */
  claims: Claims;
  tokens: Tokens;
}

/**
 * Why a provider did not confirm a person: it did not answer, the person or the provider denied the
 * sign-in, or the provider rejected it.
 */
export type ProviderFault = 'unreachable' | 'denied' | 'rejected';

export class IdentityProviderError extends Error {
  override readonly name = 'IdentityProviderError';
  readonly fault: ProviderFault;

  constructor(fault: ProviderFault, cause: unknown) {
    super(`The identity provider: ${describe(cause)}`, { cause });
    this.fault = fault;
  }
}

/** An OpenID Connect provider. Each method throws IdentityProviderError. */
export interface IdentityProvider {
  /** Returns the address that the browser must open, and what it must bring back. */
  begin(redirectUri: string): Promise<{ url: string; pending: PendingSignIn }>;
  /** Exchanges the code in `callback`, the address that the browser came back to. */
  finish(callback: URL, pending: PendingSignIn): Promise<Confirmed>;
  /**
   * Asks again about a person, and returns the claims. `keep` stores new tokens before anything
   * else is asked, also if their check fails: the provider may accept the old ones no more.
   */
  confirm(
    subject: string,
    tokens: Tokens,
    keep: (tokens: Tokens) => Promise<void>,
  ): Promise<Claims>;
  /** Returns the address that ends the provider's own session, or null if it has none. */
  signOutUrl(returnTo: string): Promise<string | null>;
}

/**
 * Creates a client of a provider, with the authorization code flow and PKCE. It reads the
 * provider's addresses when they are first needed, so a service starts without the provider.
 */
export function createIdentityProvider(settings: ProviderSettings): IdentityProvider {
  const { issuer, clientId, clientSecret } = settings;
  let known: { at: number; config: Promise<openid.Configuration> } | null = null;
  /** Takes the tokens that the provider gives in exchange for a refresh token, by that token. */
  const takers = new Map<string, (tokens: Tokens) => void>();

  /**
   * A request whose answer can have new tokens. Takes them from the answer itself: the client then
   * checks it, perhaps with another request, and drops them if that fails.
   */
  async function fetchTaking(...[url, options]: Parameters<openid.CustomFetch>): Promise<Response> {
    const response = await fetch(url, options as RequestInit);
    const { body } = options;
    const refresh = body instanceof URLSearchParams ? body.get('refresh_token') : null;
    const take = refresh === null ? undefined : takers.get(refresh);
    if (refresh === null || take === undefined || !response.ok) return response;
    const answer = await response
      .clone()
      .json()
      .catch(() => null);
    const { access_token: access, refresh_token: rotated = refresh } = Object(answer);
    if (typeof access === 'string' && typeof rotated === 'string')
      take({ access, refresh: rotated });
    return response;
  }

  async function discover(client: typeof openid): Promise<openid.Configuration> {
    const authenticate: openid.ClientAuth = (server, ...rest) => {
      const supported = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
      const method = supported.includes('client_secret_basic')
        ? client.ClientSecretBasic
        : client.ClientSecretPost;
      method(clientSecret)(server, ...rest);
    };
    const config = await client.discovery(
      new URL(issuer),
      clientId,
      { [client.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
      authenticate,
      {
        timeout: TIMEOUT_SECONDS,
        [client.customFetch]: fetchTaking,
        execute: issuer.startsWith('http:') ? [client.allowInsecureRequests] : [],
      },
    );
    client.enableNonRepudiationChecks(config);
    return config;
  }

  /** Runs one exchange with the provider. */
  async function ask<T>(
    work: (client: typeof openid, config: openid.Configuration) => Promise<T>,
  ): Promise<T> {
    const client = await import('openid-client');
    try {
      if (known === null || performance.now() - known.at > METADATA_KEPT_MS)
        known = { at: performance.now(), config: discover(client) };
      const asked = known;
      const config = await asked.config.catch((error: unknown) => {
        if (known === asked) known = null;
        throw error;
      });
      return await work(client, config);
    } catch (error) {
      if (error instanceof IdentityProviderError) throw error;
      throw new IdentityProviderError(faultOf(client, error), error);
    }
  }

  return {
    begin: (redirectUri) =>
      ask(async (client, config) => {
        const { scopes_supported: supported = OPTIONAL_SCOPES.slice(0, 2) } =
          config.serverMetadata();
        const scopes = OPTIONAL_SCOPES.filter((scope) => supported.includes(scope));
        const pending: PendingSignIn = {
          state: client.randomState(),
          nonce: client.randomNonce(),
          verifier: client.randomPKCECodeVerifier(),
        };
        const url = client.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: ['openid', ...scopes].join(' '),
          state: pending.state,
          nonce: pending.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(pending.verifier),
          code_challenge_method: 'S256',
        });
        return { url: url.href, pending };
      }),

    finish: (callback, { state, nonce, verifier }) =>
      ask(async (client, config) => {
        const answer = await client.authorizationCodeGrant(config, callback, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        });
        const claims: Claims = { ...answer.claims() };
        const tokens = { access: answer.access_token, refresh: answer.refresh_token ?? null };
        return { claims: await withUserInfo(client, config, claims, tokens), tokens };
      }),

    async confirm(subject, { access, refresh }, keep) {
      if (refresh === null)
        return ask((client, config) =>
          withUserInfo(client, config, { sub: subject }, { access, refresh }),
        );
      const taken: Tokens[] = [];
      takers.set(refresh, (tokens) => taken.push(tokens));
      let granted: { claims: Claims; access: string };
      try {
        granted = await ask(async (client, config) => {
          const answer = await client.refreshTokenGrant(config, refresh);
          const claims: Claims = { sub: subject, ...answer.claims() };
          if (claims.sub !== subject)
            throw new IdentityProviderError('rejected', 'it answered about another person');
          return { claims, access: answer.access_token };
        });
      } finally {
        takers.delete(refresh);
        const fresh = taken.at(-1);
        if (fresh !== undefined) await keep(fresh);
      }
      const { claims, access: newAccess } = granted;
      return ask((client, config) =>
        withUserInfo(client, config, claims, { access: newAccess, refresh }),
      );
    },

    signOutUrl: (returnTo) =>
      ask(async (client, config) =>
        config.serverMetadata().end_session_endpoint === undefined
          ? null
          : client.buildEndSessionUrl(config, { post_logout_redirect_uri: returnTo }).href,
      ),
  };
}

/** Adds the claims of the user info, if the provider has it. */
async function withUserInfo(
  client: typeof openid,
  config: openid.Configuration,
  claims: Claims,
  { access }: Tokens,
): Promise<Claims> {
  if (config.serverMetadata().userinfo_endpoint === undefined) return claims;
  return { ...claims, ...(await client.fetchUserInfo(config, access, String(claims.sub))) };
}

/** Returns `unreachable` for everything that a later try may change. */
function faultOf(client: typeof openid, error: unknown): ProviderFault {
  const { error: code } = error as { error?: unknown };
  if (code === 'temporarily_unavailable' || code === 'server_error') return 'unreachable';
  if (error instanceof client.AuthorizationResponseError)
    return error.error === 'access_denied' ? 'denied' : 'rejected';
  if (
    error instanceof client.ResponseBodyError ||
    error instanceof client.WWWAuthenticateChallengeError
  )
    return isOfAMoment(error.status) ? 'unreachable' : 'rejected';
  if (error instanceof client.ClientError)
    return ['OAUTH_TIMEOUT', 'OAUTH_ABORT'].includes(error.code ?? '') || isUnavailable(error.cause)
      ? 'unreachable'
      : 'rejected';
  return 'unreachable';
}

/** Returns true for an unexpected answer, as of a gateway, whose status may be another one soon. */
function isUnavailable(cause: unknown): boolean {
  const response = cause instanceof Error ? cause.cause : cause;
  return response instanceof Response && isOfAMoment(response.status);
}

/** Returns true for the status of a provider that failed, was too slow, or limits the requests. */
function isOfAMoment(status: number): boolean {
  return status >= 500 || status === 408 || status === 429;
}

/** Returns the message with those of its causes. None of them contains a token. */
function describe(error: unknown): string {
  if (typeof error === 'string') return error;
  if (!(error instanceof Error)) return '';
  const { error: code, error_description: text } = error as unknown as Record<string, unknown>;
  const own = [error.message, code, text].filter((part) => typeof part === 'string');
  const cause = describe(error.cause);
  return [...own, ...(cause === '' ? [] : [cause])].join(': ');
}
