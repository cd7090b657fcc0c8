import type { CookieSerializeOptions } from '@fastify/cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ABSOLUTE_HOURS } from './sessions.ts';

const NAME = 'waybill_session';

/** Scripts cannot read the cookie, and requests from other sites do not carry it. */
const ATTRIBUTES: CookieSerializeOptions = {
  path: '/',
  httpOnly: true,
  sameSite: 'strict',
  secure: 'auto',
};

export function readSessionCookie({ headers, server }: FastifyRequest): string | null {
  return (headers.cookie !== undefined && server.parseCookie(headers.cookie)[NAME]) || null;
}

export function setSessionCookie(reply: FastifyReply, token: string): void {
  void reply.setCookie(NAME, token, { ...ATTRIBUTES, maxAge: ABSOLUTE_HOURS * 3_600 });
}

export function clearSessionCookie(reply: FastifyReply): void {
  void reply.clearCookie(NAME, ATTRIBUTES);
}
