/*
 * The fields that protocols share: their rules in requests, and their labels in the form.
 */
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { z } from 'zod';
import { plain, text, title } from '../text.ts';
import { MAX_HOST_KEYS } from './host-keys.ts';
import type { FormField, SignInWay } from './protocol.ts';
import { VIA_TYPES, type ViaType } from './via.ts';

const MAX_URL = 2048;
/** RFC 1929 counts them in one byte. */
const MAX_SOCKS_BYTES = 255;

/** Labels of letters, also of other scripts, digits, `-` and `_`. A dot may end the name. */
const HOST_NAME = /^([\p{L}\p{M}\p{N}_-]{1,63}\.)*[\p{L}\p{M}\p{N}_-]{1,63}\.?$/u;

/** Returns true for an IP address, and for a host name that a URL can contain. */
function isHost(value: string): boolean {
  return isIP(value) !== 0 || (HOST_NAME.test(value) && URL.canParse(`https://${value}`));
}

/** Returns true for one or more certificates if all of them can be parsed. */
function isCertificate(pem: string): boolean {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    return blocks.map((block) => new X509Certificate(block)).length > 0;
  } catch {
    return false;
  }
}

/** Says why a host is not valid: it looks like a URL, or it has a blank, and where. */
function objectionToHost(value: string): string {
  const blank = value.search(/\s/);
  // A URL may hold a password, which the message would repeat.
  if (blank < 0 || /[/@?#\\]/.test(value)) return 'must be a host name or an address';
  if (value.trim() !== value) return 'must not start or end with a blank';
  return `must not contain a blank: remove the one after "${value.slice(0, blank)}"`;
}

// These rules apply to requests only: a log may hold values that an older version accepted. The
// API's documentation shows `.regex` and `.max`, for answers too. It does not show `.refine`.
export const secret = text.min(1).max(16_384);
export const password = secret.meta({ examples: ['correct horse battery staple'] });
export const host = plain
  .min(1)
  .max(253)
  .regex(/^[^\s/@?#\\]+$/, { error: ({ input }) => objectionToHost(String(input)), abort: true })
  .refine(isHost, 'must be a host name or an address, an IPv6 address without brackets')
  .toLowerCase()
  .meta({ examples: ['files.example.com'] });
export const port = z.int().min(1).max(65_535);
export const username = title
  .min(1)
  .max(256)
  .meta({ examples: ['waybill'] });
export const basePath = plain
  .max(1024)
  .regex(/^\//, 'must start with a slash')
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..');
export const prefix = plain
  .max(1024)
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..')
  // A URL parser removes such segments, so the request would ask for another name.
  .refine((path) => !path.split('/').includes('.'), 'must not contain . as a segment')
  .refine((path) => !path.includes('\\'), 'must not contain a backslash');
export const pem = text
  .regex(/^\s*-----BEGIN CERTIFICATE-----/, {
    error: 'must be a certificate in PEM form',
    abort: true,
  })
  .refine(isCertificate, 'must be a certificate in PEM form: this one cannot be read')
  .nullable()
  .default(null);
export const url = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL', abort: true })
  // A URL parser would silently drop or encode these.
  .refine(
    (value) => !/[\s\p{C}\\]/u.test(value),
    'must not contain spaces, backslashes or characters that are not shown',
  )
  .refine(
    (value) => !/[?#]|^[^/]*\/\/[^/]*@/.test(value),
    'must not contain a user, a query or a fragment',
  )
  .refine((value) => value.length <= MAX_URL, `must have at most ${MAX_URL} characters`)
  .meta({ format: undefined })
  .nullable()
  .default(null);
export const hostKey = z
  .string()
  .regex(
    /^SHA256:[A-Za-z0-9+/]{43}$/,
    'must be as `ssh-keygen -l` prints it: SHA256: and 43 characters',
  )
  .meta({ examples: ['SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'] });

export const hostKeys = z
  .array(
    z
      .strictObject({
        sha256: hostKey,
        expires_at: z.iso
          .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset' })
          .nullable()
          .default(null)
          .meta({ examples: ['2027-06-30T00:00:00.000Z'] })
          .describe('The time from which the key is no longer accepted. Null: it never expires.'),
      })
      .meta({ id: 'HostKey' }),
  )
  .max(MAX_HOST_KEYS)
  .refine(
    (keys) => new Set(keys.map(({ sha256 }) => sha256)).size === keys.length,
    'must name each key once',
  )
  .nullable()
  .default(null)
  .describe(
    'All accepted host keys. `host_key_sha256` is the first. Empty: a change keeps the accepted ' +
      'keys, for the same host and port.',
  );

/** Returns the field of a request for the hop before the server. `id` names it in OpenAPI. */
function via<Type extends ViaType>(type: z.ZodEnum<{ [Key in Type]: Key }>, id: string) {
  const hop = z.strictObject({
    type,
    host,
    port: port.optional().describe('By default 22 (ssh), 3128 (http) or 1080 (socks5).'),
    username: username.nullable().default(null),
    password: password.optional(),
    private_key: secret.optional().describe('The private key for a jump host.'),
    passphrase: secret.optional().describe('The passphrase of the private key.'),
    host_keys: hostKeys.describe('The accepted host keys of a jump host.'),
  });
  return hop
    .superRefine((value, context) => {
      const refuse = (field: string, message: string) =>
        context.addIssue({ code: 'custom', path: [field], message });
      if (value.type === 'ssh') {
        if (value.username === null) refuse('username', 'is required for a jump host');
        if (value.passphrase !== undefined && value.private_key === undefined)
          refuse('passphrase', 'belongs to a private_key');
        return;
      }
      for (const field of ['private_key', 'passphrase'] as const)
        if (value[field] !== undefined) refuse(field, 'is for a jump host only');
      if (value.host_keys?.length) refuse('host_keys', 'is for a jump host only');
      if (value.password !== undefined && value.username === null)
        refuse('username', 'is required for a password');
      if (value.type === 'http' && value.username?.includes(':'))
        refuse('username', 'must not contain a colon: an HTTP proxy ends the name there');
      if (value.type === 'socks5')
        for (const field of ['username', 'password'] as const)
          if (Buffer.byteLength(value[field] ?? '') > MAX_SOCKS_BYTES)
            refuse(field, `must have at most ${MAX_SOCKS_BYTES} bytes for a SOCKS5 proxy`);
    })
    .meta({ id })
    .nullable()
    .default(null)
    .describe('A hop on the way to the server: a proxy or, for SFTP, a jump host. Null: none.');
}

export const PROXIES = ['http', 'socks5'] as const satisfies ViaType[];
export const viaType = z.enum(VIA_TYPES).meta({ id: 'ViaType' });
export const viaHop = via(viaType, 'ViaHop');
export const viaProxy = via(z.enum(PROXIES).meta({ id: 'ProxyType' }), 'ViaProxy');

export const HOST_FIELD: FormField = { label: 'Host', placeholder: 'files.example.com' };
export const USERNAME_FIELD: FormField = { label: 'User name' };
export const BASE_PATH_FIELD: FormField = {
  label: 'Base path',
  initial: '/',
  hint: 'Transfers can reach only files below this folder',
};
export const PREFIX_FIELD: FormField = {
  label: 'Prefix',
  placeholder: 'incoming/',
  hint: 'Transfers can reach only names that begin with this prefix',
};
export const CA_FIELD: FormField = {
  label: 'CA certificate',
  kind: 'lines',
  placeholder: '-----BEGIN CERTIFICATE-----',
  hint: 'Needed only if your own CA signed the server’s certificate',
};
export const BY_PASSWORD = {
  label: 'Password',
  secrets: { password: { label: 'Password', kind: 'secret' } },
} as const satisfies SignInWay;
