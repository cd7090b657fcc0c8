import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Sql } from '../../adapters/postgres/connect.ts';
import * as schemas from '../../contract/sessions.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import { admitKey, readKey } from '../admission/authenticate.ts';
import { clientOf } from '../auth/client.ts';
import { clearSessionCookie, setSessionCookie } from '../auth/cookie.ts';
import { findKey } from '../auth/identity.ts';
import { originOf } from '../auth/same-origin.ts';
import { createSessions, hashToken } from '../auth/sessions.ts';
import { noQuery, nothing, OPEN, responses, WITH_BODY } from '../openapi/documentation.ts';

/** Routes to sign in to the Admin Console: they exchange a key for a session cookie. */
export function sessionRoutes({ sql }: { sql: Sql }): FastifyPluginAsyncZod {
  const sessions = createSessions(sql);

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/session',
      config: { open: true },
      schema: {
        operationId: 'signIn',
        summary: 'Sign in to the Admin Console',
        description:
          'Sets a session cookie that scripts cannot read. Attempts count against the rate ' +
          'limit of the address.',
        tags: ['Session'],
        security: [],
        querystring: noQuery,
        body: schemas.signIn,
        response: responses(
          { 201: ['Signed in; the cookie is set', schemas.sessionInfo] },
          [
            ...WITH_BODY,
            'api_key_malformed',
            'api_key_invalid',
            'api_key_expired',
            'api_key_revoked',
            'api_key_id_used',
            'insufficient_scope',
            'cross_site_request',
          ],
          OPEN,
        ),
      },
      async handler(request, reply) {
        if (originOf(request) === 'other')
          throw new DomainError(
            'cross_site_request',
            'Sign in from the Admin Console of this installation',
          );
        const found = await findKey(sql, readKey(request.body.api_key.trim()));
        const client = admitKey(found, found.role === null ? 'admin' : undefined);
        const token = await sessions.begin(client.keyId as string);
        const session = await sessions.describe(hashToken(token));
        setSessionCookie(reply, token);
        return reply.code(201).send(session);
      },
    });

    app.route({
      method: 'GET',
      url: '/session',
      schema: {
        operationId: 'getSession',
        summary: 'Get the session of the cookie',
        description: 'Needs the cookie of the Admin Console, in any role.',
        tags: ['Session'],
        querystring: noQuery,
        response: responses({ 200: ['The session', schemas.sessionInfo] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      handler: async (request) => describe(sessionOf(request)),
    });

    app.route({
      method: 'DELETE',
      url: '/session',
      schema: {
        operationId: 'signOut',
        summary: 'Sign out',
        description: 'Needs the cookie of the Admin Console, in any role.',
        tags: ['Session'],
        querystring: noQuery,
        response: responses({ 204: ['Signed out; the cookie is removed', nothing] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request, reply) {
        await sessions.end(sessionOf(request));
        clearSessionCookie(reply);
        return reply.code(204).send();
      },
    });

    app.route({
      method: 'PUT',
      url: '/session/account',
      schema: {
        operationId: 'switchAccount',
        summary: 'Switch the session to another account',
        description: 'Needs the cookie of the Admin Console, in any role.',
        tags: ['Session'],
        querystring: noQuery,
        body: schemas.accountChoice,
        response: responses({ 200: ['The session', schemas.sessionInfo] }, [
          ...WITH_BODY,
          'not_found',
        ]),
      },
      async handler(request) {
        const session = sessionOf(request);
        const known = await sessions.switchAccount(session, request.body.account);
        if (!known) throw fieldError('account', 'must be one of the accounts of the session');
        return describe(session);
      },
    });
  };

  async function describe(session: string): Promise<schemas.SessionInfo> {
    const found = await sessions.describe(session);
    if (!found) throw new DomainError('session_ended', 'This session has ended: sign in again');
    return found;
  }
}

/** Returns the session of a request. Throws `not_found` if the request came with a key. */
function sessionOf(request: FastifyRequest): string {
  const { session } = clientOf(request);
  if (session === null)
    throw new DomainError(
      'not_found',
      'A key has no session: this route needs the cookie of the Admin Console',
    );
  return session;
}
