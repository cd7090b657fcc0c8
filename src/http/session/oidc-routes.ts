import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type IdentityProvider, IdentityProviderError } from '../../adapters/identity-provider.ts';
import * as schemas from '../../contract/sessions.ts';
import { DomainError, reasonOf } from '../../domain/errors.ts';
import type { AccessRecorder } from '../access-log/recorder.ts';
import {
  clearSignInCookie,
  readSignInCookie,
  setSessionCookie,
  setSignInCookie,
} from '../auth/cookie.ts';
import type { People } from '../auth/people.ts';
import { noQuery, OPEN, responses } from '../openapi/documentation.ts';
import { MalformedRequest } from '../problems.ts';

const SIGN_IN_PAGE = '/console/sign-in';
const CALLBACK = '/v1/session/oidc/callback';

/** Why a sign-in failed, as the sign-in page reads it from its address. */
type Failure = 'unreachable' | 'denied' | 'rejected' | 'expired' | 'no_role';

export interface OidcRoutesDeps {
  people: People;
  access: Pick<AccessRecorder, 'personRejected'>;
  config: { oidc: { issuer: string } | null; publicUrl: string | null };
}

/**
 * Routes that a browser opens to sign in at the identity provider. They answer with redirects: a
 * failure is shown on the sign-in page of the console. Programs do not call them, so the OpenAPI
 * document leaves them out.
 */
export function oidcRoutes({ people, access, config }: OidcRoutesDeps): FastifyPluginAsyncZod {
  /**
   * Returns an address of this service as browsers see it. The provider compares it exactly. Throws
   * MalformedRequest if the request names a host that no URL can have.
   */
  function publicUrl({ protocol, host }: FastifyRequest, path: string): string {
    const url = `${config.publicUrl ?? `${protocol}://${host}`}${path}`;
    if (URL.canParse(url)) return url;
    throw new MalformedRequest('No URL can have the host that the request names');
  }

  function configured(): IdentityProvider {
    if (people.provider !== null) return people.provider;
    throw new DomainError('not_found', 'No identity provider is configured: sign in with a key');
  }

  function fail(request: FastifyRequest, reply: FastifyReply, failure: Failure, to: string) {
    request.log.warn({ failure }, 'a sign-in at the identity provider failed');
    if (failure !== 'unreachable') access.personRejected(request, failure);
    return reply.redirect(`${SIGN_IN_PAGE}?${new URLSearchParams({ error: failure, return: to })}`);
  }

  function faultOf(request: FastifyRequest, error: unknown): Failure {
    if (!(error instanceof IdentityProviderError)) throw error;
    request.log.warn({ reason: reasonOf(error) }, 'the identity provider confirmed no sign-in');
    return error.fault;
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/session/options',
      config: { open: true },
      schema: {
        operationId: 'getSignInOptions',
        summary: 'Get the ways to sign in to the Admin Console',
        description: 'Needs no key.',
        tags: ['Session'],
        security: [],
        querystring: noQuery,
        response: responses(
          { 200: ['The ways besides an API key', schemas.signInOptions] },
          ['unknown_field'],
          OPEN,
        ),
      },
      handler: async (): Promise<schemas.SignInOptions> => ({
        identity_provider: config.oidc && new URL(config.oidc.issuer).host,
      }),
    });

    app.route({
      method: 'GET',
      url: '/session/oidc',
      config: { open: true },
      schema: { hide: true, querystring: schemas.beginSignIn },
      async handler(request, reply) {
        const returnTo = request.query.return;
        try {
          const { url, pending } = await configured().begin(publicUrl(request, CALLBACK));
          setSignInCookie(reply, { ...pending, returnTo });
          return reply.redirect(url);
        } catch (error) {
          return fail(request, reply, faultOf(request, error), returnTo);
        }
      },
    });

    app.route({
      method: 'GET',
      url: '/session/oidc/callback',
      config: { open: true },
      // The provider may add parameters of its own.
      schema: { hide: true, querystring: z.looseObject({}) },
      async handler(request, reply) {
        const provider = configured();
        const started = readSignInCookie(request);
        clearSignInCookie(reply);
        const callback = new URL(publicUrl(request, CALLBACK));
        callback.search = URL.parse(request.url, callback.href)?.search ?? '';
        // Before the provider is asked: only the browser that began the sign-in has the state.
        if (started === null || callback.searchParams.get('state') !== started.state)
          return fail(request, reply, 'expired', started?.returnTo ?? '');
        const { returnTo } = started;
        try {
          const confirmed = await provider.finish(callback, started);
          const signOutUrl = await provider.signOutUrl(publicUrl(request, SIGN_IN_PAGE));
          const token = await people.begin(confirmed, signOutUrl);
          if (token === null) return fail(request, reply, 'no_role', returnTo);
          setSessionCookie(reply, token);
          const query = new URLSearchParams({ signed_in: '', return: returnTo });
          return reply.redirect(`${SIGN_IN_PAGE}?${query}`);
        } catch (error) {
          return fail(request, reply, faultOf(request, error), returnTo);
        }
      },
    });
  };
}
