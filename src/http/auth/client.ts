import type { FastifyRequest } from 'fastify';
import type { Cause } from '../../commands/handle.ts';
import { DomainError } from '../../domain/errors.ts';
import { grants, type Scope } from '../../domain/scope.ts';
import { clientAddress } from '../requests/client-address.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The client of the request. Null before authentication, and without a valid key or session.
     */
    client: Client | null;
  }
}

/** The client that a valid key or session identifies. */
export interface Client {
  /** Who the client is in events: `key:key_...`, `console:key_...`, `person:EMAIL (SUBJECT)`. */
  actor: string;
  /** Null for a person. */
  keyId: string | null;
  /** The key's account. For a session, the account that the session has selected. */
  accountId: string;
  scopes: Scope[];
  /** SHA-256 of the console session's token. Null for a request with a key. */
  session: string | null;
  /** It is time to have the roles of the person confirmed. */
  unconfirmed: boolean;
}

/** Returns the client of a request on a route that needs a key. */
export function clientOf(request: FastifyRequest): Client {
  if (request.client === null)
    throw new Error(`${request.routeOptions.url} was reached without authentication`);
  return request.client;
}

/** Returns who causes the events of a request, from where, and the correlation id. */
export function causeOf(request: FastifyRequest): Cause {
  return {
    actor: clientOf(request).actor,
    correlationId: request.id,
    clientAddress: clientAddress(request),
  };
}

/** Throws `insufficient_scope` if the client lacks the scope. */
export function needScope({ scopes }: Client, scope: Scope): void {
  if (grants(scopes, scope)) return;
  throw new DomainError(
    'insufficient_scope',
    `This request needs an API key or a role with the scope ${scope}`,
    { required_scope: scope },
  );
}

/** Returns the only account that the client may act on, or null if it may act on all of them. */
export function accountLimit(request: FastifyRequest): string | null {
  const { accountId, scopes } = clientOf(request);
  return grants(scopes, 'admin') ? null : accountId;
}

/**
 * Returns the account whose data a request asks for; null for all accounts. Throws
 * `insufficient_scope` if the client may not read that account.
 */
export function accountAsked(request: FastifyRequest, account: string | undefined): string | null {
  const limit = accountLimit(request);
  if (limit !== null && account !== undefined && account !== limit)
    needScope(clientOf(request), 'admin');
  return limit ?? account ?? null;
}
