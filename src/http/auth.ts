import type { FastifyReply, FastifyRequest } from 'fastify';
import { hashApiKey, isApiKey } from '../commands/api-key.ts';
import type { Cause } from '../commands/handle.ts';
import { DomainError } from '../domain/errors.ts';
import { isId } from '../domain/ids.ts';
import { grants, type Scope } from '../domain/key.ts';
import { clientAddress } from './client-address.ts';
import { UNAVAILABLE_RETRY_SECONDS } from './problems.ts';
import { type Client, type Credential, type Identity, type RateLimiter, rateHeaders, type Standing } from './rate-limit.ts';
import { readSessionCookie } from './session/cookie.ts';
import { originOf } from './session/same-origin.ts';
import { hashToken } from './session/sessions.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whoever the request's key or session speaks for; null before that is known, and without a valid one. */
    client: Client | null;
  }
  interface FastifyContextConfig {
    /** The scope that the route needs. */
    scope?: Scope;
    /** The route needs no key. */
    open?: boolean;
  }
}

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];
const FORM = 'Authorization: Bearer KEY, with exactly one space';

const REFUSED: Record<Exclude<Standing, 'valid'>, [code: 'api_key_expired' | 'api_key_revoked' | 'api_key_invalid', detail: string]> = {
  expired: ['api_key_expired', 'This API key has expired: ask for a new one'],
  revoked: ['api_key_revoked', 'This API key was revoked: ask for a new one'],
  unknown: ['api_key_invalid', 'This API key is not known here'],
};

/**
 * Takes a place in the rate window of the request's key or session (or address), says so in the headers,
 * and refuses who has none left, or no valid key where the route needs one, or one without the scope.
 */
export async function authenticate(rateLimiter: RateLimiter, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const credential = readCredential(request);
  // What stands where Postgres, which counts, does not answer.
  const reset = Math.floor(Date.now() / 1000) + UNAVAILABLE_RETRY_SECONDS;
  void reply.headers(rateHeaders({ limit: rateLimiter.perKey, remaining: 0, reset }));
  const given = credential instanceof DomainError ? null : credential;
  const { window, ...identity } = await rateLimiter.admit(given, clientAddress(request));
  request.client = identity.client;
  void reply.headers(rateHeaders(window));
  if (window.remaining < 0) {
    void reply.header('retry-after', String(window.retryAfter));
    throw new DomainError('rate_limited', `${window.limit} requests a minute are allowed; the next is in ${window.retryAfter} seconds`);
  }
  const { open, scope } = request.routeOptions.config;
  if (open || request.method === 'OPTIONS') return;
  if (credential instanceof DomainError) throw credential;
  if (credential.kind === 'session') admitSession(request, identity);
  admitKey(identity, scope);
}

/** Whoever the key speaks for. Throws why it gives no access, or not this one. */
export function admitKey(identity: Identity, scope: Scope | undefined): Client {
  if (identity.standing !== 'valid') throw new DomainError(...REFUSED[identity.standing]);
  const { client } = identity;
  if (scope !== undefined && !grants(client.scopes, scope)) {
    throw new DomainError('insufficient_scope', `This needs an API key with the scope ${scope}`, { required_scope: scope });
  }
  return client;
}

/** Throws where the session has ended, or a page of another site may have made the browser send this. */
function admitSession(request: FastifyRequest, { standing }: Identity): void {
  if (standing !== 'valid') throw new DomainError('session_ended', 'The session of the Admin Console has ended: sign in again');
  if (SAFE_METHODS.includes(request.method) || originOf(request) === 'same') return;
  throw new DomainError('cross_site_request', 'With the cookie of the Admin Console, changes are taken from its own pages alone');
}

/** The key of the Authorization header, else the session of the cookie, or why there is neither. */
function readCredential(request: FastifyRequest): Credential | DomainError {
  const values = request.raw.headersDistinct.authorization ?? [];
  const [value = ''] = values;
  if (value === '') {
    const token = readSessionCookie(request);
    if (token !== null) return { kind: 'session', sha256: hashToken(token) };
    return new DomainError('api_key_missing', `Send the API key as ${FORM}`);
  }
  if (values.length > 1) return new DomainError('api_key_malformed', 'The Authorization header must be given once');
  const key = /^Bearer (\S+)$/i.exec(value)?.[1];
  if (key === undefined) return new DomainError('api_key_malformed', `The header must read ${FORM} and none within the key`);
  try {
    return { kind: 'key', sha256: readKey(key) };
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

/** The hash of what can be an API key. Throws what it is instead. */
export function readKey(text: string): string {
  if (isId('key', text)) throw new DomainError('api_key_id_used', 'This is the id of an API key. Send the key itself: it starts with wb_');
  if (isApiKey(text)) return hashApiKey(text);
  throw new DomainError('api_key_malformed', 'This can be no API key: one starts with wb_ and ends in a check that fails here');
}

/** The client of a request on a route that needs a key. */
export function clientOf(request: FastifyRequest): Client {
  if (request.client === null) throw new Error(`${request.routeOptions.url} was reached without authentication`);
  return request.client;
}

/** What goes into the metadata of events that a request causes. */
export function causeOf(request: FastifyRequest): Cause {
  const { keyId, session } = clientOf(request);
  return { actor: `${session === null ? 'key' : 'console'}:${keyId}`, correlationId: request.id };
}
