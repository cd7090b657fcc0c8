import cookie, { type CookieSerializeOptions } from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SESSION_HOURS } from '../../domain/session.ts';

const SESSION = 'waybill_session';
const SIGN_IN = 'waybill_sign_in';

/** Scripts cannot read the cookie, and requests from other sites do not carry it. */
const ATTRIBUTES: CookieSerializeOptions = { path: '/', httpOnly: true, sameSite: 'strict' };

/**
 * Makes the app set cookies. Those of a service with a public https URL are always `Secure`: a
 * proxy that is not trusted hides that the browser used TLS.
 */
export function registerCookies(app: FastifyInstance, publicUrl: string | null): void {
  const secure = isHttps(publicUrl) || 'auto';
  void app.register(cookie, { hook: false, parseOptions: { secure } });
}

/** Returns true if browsers must use TLS. */
export function isHttps(publicUrl: string | null): boolean {
  return publicUrl?.startsWith('https:') ?? false;
}

/** The provider sends the browser back from its own site. So this cookie must be lax. */
const SIGN_IN_ATTRIBUTES: CookieSerializeOptions = {
  ...ATTRIBUTES,
  path: '/v1/session/oidc',
  sameSite: 'lax',
};
const SIGN_IN_MINUTES = 10;

const startedSignIn = z.strictObject({
  state: z.string().min(1),
  nonce: z.string().min(1),
  verifier: z.string().min(1),
  /** The page of the console to open afterwards. */
  returnTo: z.string(),
  /** Epoch milliseconds. */
  expires: z.number(),
});
/** A sign-in that this browser has started at the identity provider. */
export type StartedSignIn = z.output<typeof startedSignIn>;

export function readSessionCookie(request: FastifyRequest): string | null {
  return read(request, SESSION);
}

export function setSessionCookie(reply: FastifyReply, token: string): void {
  void reply.setCookie(SESSION, token, { ...ATTRIBUTES, maxAge: SESSION_HOURS * 3_600 });
}

export function clearSessionCookie(reply: FastifyReply): void {
  void reply.clearCookie(SESSION, ATTRIBUTES);
}

/** Returns the started sign-in of this browser; null if there is none, or if it is too old. */
export function readSignInCookie(request: FastifyRequest): StartedSignIn | null {
  try {
    const text = Buffer.from(read(request, SIGN_IN) ?? '', 'base64url').toString();
    const started = startedSignIn.parse(JSON.parse(text));
    return started.expires > Date.now() ? started : null;
  } catch {
    return null;
  }
}

export function setSignInCookie(
  reply: FastifyReply,
  started: Omit<StartedSignIn, 'expires'>,
): void {
  const maxAge = SIGN_IN_MINUTES * 60;
  const text = JSON.stringify({ ...started, expires: Date.now() + maxAge * 1_000 });
  const value = Buffer.from(text).toString('base64url');
  void reply.setCookie(SIGN_IN, value, { ...SIGN_IN_ATTRIBUTES, maxAge });
}

export function clearSignInCookie(reply: FastifyReply): void {
  void reply.clearCookie(SIGN_IN, SIGN_IN_ATTRIBUTES);
}

function read({ headers, server }: FastifyRequest, name: string): string | null {
  return (headers.cookie !== undefined && server.parseCookie(headers.cookie)[name]) || null;
}
