import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';

export const CLIENT_ID = 'waybill';
/** Has characters that HTTP Basic must escape. */
export const CLIENT_SECRET = 'secret: of+the%client/with-32-characters';

export interface Refusal {
  path: string;
  status: number;
  body: object;
}

export interface TestIdentityProvider {
  issuer: string;
  /** The settings of a service that uses the provider, without the roles. */
  settings: Record<string, string>;
  /** Claims by subject. A change counts from the next request on. */
  people: Map<string, Record<string, unknown>>;
  /** Requests to the token endpoint so far. */
  exchanges: () => number;
  /** Lets the client come back to this service. Call it before the first sign-in. */
  register(serviceUrl: string): void;
  /** While true, the provider closes every connection without an answer. */
  setDown(down: boolean): void;
  /** While true, it closes the connections that ask for its keys. */
  setKeysDown(down: boolean): void;
  /** While it is set, requests to its path get this answer. */
  setRefusal(refusal: Refusal | null): void;
  close(): Promise<void>;
}

/**
 * Starts a real OpenID Connect provider. Its sign-in page asks for the subject alone. Refresh
 * tokens rotate: one that was used before ends the whole grant.
 */
export async function startIdentityProvider(): Promise<TestIdentityProvider> {
  const people = new Map<string, Record<string, unknown>>();
  let provider: Provider | null = null;
  let down = false;
  let keysDown = false;
  let refusal: Refusal | null = null;
  let exchanges = 0;
  const server = createServer((request, response) => {
    if (down || provider === null) return void request.socket.destroy();
    if (keysDown && request.url === '/jwks') return void request.socket.destroy();
    if (request.url === '/token') exchanges++;
    if (refusal !== null && refusal.path === request.url)
      return void response
        .writeHead(refusal.status, { 'content-type': 'application/json' })
        .end(JSON.stringify(refusal.body));
    if (request.url?.startsWith('/interaction/')) return void interact(provider, request, response);
    void provider.callback()(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    issuer,
    settings: {
      WAYBILL_OIDC_ISSUER: issuer,
      WAYBILL_OIDC_CLIENT_ID: CLIENT_ID,
      WAYBILL_OIDC_CLIENT_SECRET: CLIENT_SECRET,
    },
    people,
    exchanges: () => exchanges,
    register(serviceUrl) {
      provider = createProvider(issuer, serviceUrl, people);
    },
    setDown(now) {
      down = now;
      if (down) server.closeAllConnections();
    },
    setKeysDown(now) {
      keysDown = now;
    },
    setRefusal(now) {
      refusal = now;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function createProvider(
  issuer: string,
  serviceUrl: string,
  people: Map<string, Record<string, unknown>>,
): Provider {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        redirect_uris: [`${serviceUrl}/v1/session/oidc/callback`],
        post_logout_redirect_uris: [`${serviceUrl}/console/sign-in`],
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    cookies: { keys: ['a key of the tests'] },
    claims: {
      openid: ['sub'],
      profile: ['name'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: {
        enabled: true,
        // The default page loads a font from elsewhere.
        async logoutSource(context, form) {
          context.body = `<!doctype html><html lang="en"><link rel="icon" href="data:,">
            <title>Provider</title>${form}
            <button form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button></html>`;
        },
      },
    },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    issueRefreshToken: async () => true,
    rotateRefreshToken: true,
    ttl: {
      AccessToken: 3_600,
      AuthorizationCode: 60,
      Grant: 3_600,
      IdToken: 3_600,
      Interaction: 3_600,
      RefreshToken: 3_600,
      Session: 3_600,
    },
    async findAccount(_context, subject) {
      const claims = people.get(subject);
      return claims && { accountId: subject, claims: async () => ({ ...claims, sub: subject }) };
    },
    // Everybody has consented to everything.
    async loadExistingGrant({ oidc }) {
      const { client, session } = oidc;
      if (!client || !session?.accountId) return undefined;
      const grant = new oidc.provider.Grant({
        clientId: client.clientId,
        accountId: session.accountId,
      });
      grant.addOIDCScope('openid profile email groups offline_access');
      await grant.save();
      return grant;
    },
  });
}

/** Answers the sign-in page and what it sends: the subject, or nothing to deny the sign-in. */
async function interact(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method === 'GET') {
    response.setHeader('content-type', 'text/html').end(
      `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Provider</title><form method="post">
         <label>Subject <input name="subject"></label><button>Continue</button></form></html>`,
    );
    return;
  }
  let body = '';
  for await (const chunk of request) body += chunk;
  const subject = new URLSearchParams(body).get('subject');
  await provider.interactionFinished(
    request,
    response,
    subject ? { login: { accountId: subject } } : { error: 'access_denied' },
  );
}
