import type { FastifyReply, FastifyRequest } from 'fastify';
import { hashApiKey, isApiKey } from '../commands/api-key.ts';
import type { Cause } from '../commands/handle.ts';
import { DomainError } from '../domain/errors.ts';
import { isId } from '../domain/ids.ts';
import { grants, type Scope } from '../domain/key.ts';
import { clientAddress } from './client-address.ts';
import { UNAVAILABLE_RETRY_SECONDS } from './problems.ts';
import { type Client, rateHeaders, type Standing, type Turnstile } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whoever the request's key speaks for; null before that is known, and without a valid key. */
    client: Client | null;
  }
  interface FastifyContextConfig {
    /** The scope that the route needs. */
    scope?: Scope;
    /** The route needs no key. */
    open?: boolean;
  }
}

const FORM = 'Authorization: Bearer KEY, with exactly one space';

const REFUSED: Record<Exclude<Standing, 'valid'>, [code: 'api_key_expired' | 'api_key_revoked' | 'api_key_invalid', detail: string]> = {
  expired: ['api_key_expired', 'This API key has expired: ask for a new one'],
  revoked: ['api_key_revoked', 'This API key was revoked: ask for a new one'],
  unknown: ['api_key_invalid', 'This API key is not known here'],
};

/**
 * Takes a place in the rate window of the request's key (or address), says so in the headers, and
 * refuses who has none left, or no valid key where the route needs one, or one without the scope.
 */
export async function authenticate(turnstile: Turnstile, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const credential = readCredential(request);
  const sha256 = typeof credential === 'string' ? hashApiKey(credential) : null;
  // What stands where Postgres, which counts, does not answer.
  const reset = Math.floor(Date.now() / 1000) + UNAVAILABLE_RETRY_SECONDS;
  void reply.headers(rateHeaders({ limit: turnstile.perKey, remaining: 0, reset }));
  const { standing, client, window } = await turnstile.enter(sha256, clientAddress(request));
  request.client = client;
  void reply.headers(rateHeaders(window));
  if (window.remaining < 0) {
    void reply.header('retry-after', String(window.retryAfter));
    throw new DomainError('rate_limited', `${window.limit} requests a minute are allowed; the next is in ${window.retryAfter} seconds`);
  }
  const { open, scope } = request.routeOptions.config;
  if (open || request.method === 'OPTIONS') return;
  if (typeof credential !== 'string') throw credential;
  if (standing !== 'valid') throw new DomainError(...REFUSED[standing]);
  if (scope !== undefined && !grants((client as Client).scopes, scope)) {
    throw new DomainError('insufficient_scope', `This needs an API key with the scope ${scope}`, { required_scope: scope });
  }
}

/** The key of the Authorization header, or why there is none. */
function readCredential(request: FastifyRequest): string | DomainError {
  const values = request.raw.headersDistinct.authorization ?? [];
  const [value = ''] = values;
  if (value === '') return new DomainError('api_key_missing', `Send the API key as ${FORM}`);
  if (values.length > 1) return new DomainError('api_key_malformed', 'The Authorization header must be given once');
  const key = /^Bearer (\S+)$/i.exec(value)?.[1];
  if (key === undefined) return new DomainError('api_key_malformed', `The header must read ${FORM} and none within the key`);
  if (isId('key', key)) return new DomainError('api_key_id_used', 'This is the id of an API key. Send the key itself: it starts with wb_');
  if (!isApiKey(key))
    return new DomainError('api_key_malformed', 'This can be no API key: one starts with wb_ and ends in a check that fails here');
  return key;
}

/** The client of a request on a route that needs a key. */
export function clientOf(request: FastifyRequest): Client {
  if (request.client === null) throw new Error(`${request.routeOptions.url} was reached without authentication`);
  return request.client;
}

/** What goes into the metadata of events that a request causes. */
export function causeOf(request: FastifyRequest): Cause {
  const { keyId, accountId } = clientOf(request);
  return { actor: `key:${keyId}`, accountId, correlationId: request.id };
}
