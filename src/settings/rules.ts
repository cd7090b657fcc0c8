import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { parseDuration } from '../domain/durations.ts';
import { isHttpsOrLocal } from '../domain/http-url.ts';
import { sinkKindOf } from '../domain/proof/sink-url.ts';
import { parseRoleRule, ROLES, type RoleRule } from '../domain/role.ts';
import { anyOf } from '../domain/text.ts';

/** Returns the rule of a whole number between these, both included. */
export function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d+$/, message)
    .transform(Number)
    .pipe(z.number().min(min, message).max(max, message));
}

/** Comma-separated; spaces around an item are allowed. */
function list(valid: (item: string) => boolean, message: string) {
  return z
    .string()
    .transform((text) => text.split(',').map((item) => item.trim()))
    .refine((items) => items.every(valid), message);
}

export const durations = list(
  isDuration,
  'must be durations of at most 36500d, separated by commas, one for each retry, such as ' +
    '10s,60s,300s',
).transform((items) => items.map(parseDuration));
export const addresses = list(
  (item) => isIP(item) !== 0 || isCidr(item),
  'must be addresses or ranges separated by commas, such as 10.0.0.0/8',
);
export const roleRules = list(
  (item) => parseRoleRule(item) !== null,
  'must be rules separated by commas, such as groups:ops=operator@acc_default or ' +
    `email:ann@example.com=admin@*, with one of the roles ${anyOf(ROLES)}`,
).transform((items) => items.map((item) => parseRoleRule(item) as RoleRule));
export const checkpointSinks = list(
  (item) => sinkKindOf(item) !== null,
  'must be URLs separated by commas: file:///FOLDER, s3://ENDPOINT/FOLDER/ or https://... of a ' +
    'witness (http only on 127.0.0.1 and localhost)',
);
export const cidrs = list(
  isCidr,
  'must be ranges separated by commas, such as 10.0.0.0/8,fd00::/8',
);
/** Several keys stay one text. */
export const masterKeys = list(
  isMasterKey,
  'must be 32 bytes in base64, as `openssl rand -base64 32` prints them; NEW,OLD during a rotation',
).transform((keys) => keys.join(','));

/** A file or a folder. */
export const path = z
  .string()
  .refine(
    (text) => !text.startsWith('~'),
    'only a shell replaces ~: write the whole path, or ./~ for a folder that has this name',
  );

/** A scheme and a host. */
export const origin = z
  .string()
  .refine(
    (text) => /^https?:$/.test(URL.parse(text)?.protocol ?? '') && isOrigin(text),
    'must be a scheme and a host, such as https://waybill.example.com',
  )
  .transform((text) => new URL(text).origin);
/** The URL of an identity provider. */
export const issuer = z
  .string()
  .refine(
    isIssuer,
    'must be an https URL, as the provider names itself (http only on 127.0.0.1 and localhost)',
  );

function isDuration(text: string): boolean {
  try {
    parseDuration(text);
    return true;
  } catch {
    return false;
  }
}

function isOrigin(text: string): boolean {
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname === '/' && `${search}${hash}${username}${password}` === '';
}

function isIssuer(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && isHttpsOrLocal(url);
}

function isMasterKey(text: string): boolean {
  const key = Buffer.from(text, 'base64');
  return key.length === 32 && key.toString('base64') === text;
}

/** Rejects short and octal forms: `10/8` would mean 0.0.0.10/8, and `012.0.0.0/8` 10.0.0.0/8. */
function isCidr(text: string): boolean {
  return ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text);
}
