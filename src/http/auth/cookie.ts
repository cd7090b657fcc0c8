import cookie, { type CookieSerializeOptions } from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SESSION_HOURS } from '../../domain/session.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Browsers use TLS, also if the requests do not show it. */
    httpsOnly: boolean;
  }
}

const SESSION = 'waybill_session';
const SIGN_IN = 'waybill_sign_in';

/**
 * Over TLS, the names begin with this. Browsers then take the cookies only from this very host:
 * another host of its domain could otherwise put the session of an attacker in their place.
 */
const OF_THIS_HOST = '__Host-';

/** Scripts cannot read the cookie, and requests from other sites do not carry it. */
const ATTRIBUTES: CookieSerializeOptions = { path: '/', httpOnly: true, sameSite: 'strict' };

/**
 * Makes the app set cookies. Those of a service with a public https URL are always `Secure`: a
 * proxy that is not trusted hides that the browser used TLS.
 */
export function registerCookies(app: FastifyInstance, publicUrl: string | null): void {
  app.decorate('httpsOnly', isHttps(publicUrl));
  void app.register(cookie, { hook: false });
}

/** Returns true if browsers must use TLS. */
export function isHttps(publicUrl: string | null): boolean {
  return publicUrl?.startsWith('https:') ?? false;
}

/** Returns true if the browser used TLS, also to a proxy. */
function isEncrypted({ server, protocol, headers }: FastifyRequest): boolean {
  return server.httpsOnly || protocol === 'https' || headers['x-forwarded-proto'] === 'https';
}

function nameOf(request: FastifyRequest, name: string): string {
  return isEncrypted(request) ? OF_THIS_HOST + name : name;
}

/** The provider sends the browser back from its own site. So this cookie must be lax. */
const SIGN_IN_ATTRIBUTES: CookieSerializeOptions = { ...ATTRIBUTES, sameSite: 'lax' };
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
  set(reply, SESSION, token, { ...ATTRIBUTES, maxAge: SESSION_HOURS * 3_600 });
}

export function clearSessionCookie(reply: FastifyReply): void {
  clear(reply, SESSION, ATTRIBUTES);
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
  set(reply, SIGN_IN, value, { ...SIGN_IN_ATTRIBUTES, maxAge });
}

export function clearSignInCookie(reply: FastifyReply): void {
  clear(reply, SIGN_IN, SIGN_IN_ATTRIBUTES);
}

function set(
  reply: FastifyReply,
  name: string,
  value: string,
  attributes: CookieSerializeOptions,
): void {
  const { request } = reply;
  void reply.setCookie(nameOf(request, name), value, {
    ...attributes,
    secure: isEncrypted(request),
  });
}

function clear(reply: FastifyReply, name: string, attributes: CookieSerializeOptions): void {
  const { request } = reply;
  void reply.clearCookie(nameOf(request, name), { ...attributes, secure: isEncrypted(request) });
}

function read(request: FastifyRequest, name: string): string | null {
  const { headers, server } = request;
  const cookies = headers.cookie === undefined ? {} : server.parseCookie(headers.cookie);
  return cookies[nameOf(request, name)] || null;
}
