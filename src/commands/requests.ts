import { z } from 'zod';
import { DEFAULT_PORTS, type Protocol, type SignIn } from '../domain/endpoint.ts';
import { DomainError } from '../domain/errors.ts';
import { SCOPES } from '../domain/key.ts';
import { PRIORITIES } from '../domain/transfer.ts';
import { fileName, parseTransferUri } from '../domain/uri.ts';

const METADATA_KEYS = 10;
const METADATA_CHARACTERS = 256;
/** Keys that mean something to JavaScript objects themselves. */
const RESERVED_KEYS = ['__proto__', 'constructor', 'prototype'];

/** Text that can be stored and shown: no NUL, no half of a surrogate pair. */
export const text = z
  .string()
  .refine((value) => !value.includes('\0') && value.isWellFormed(), 'must not contain a NUL character or an unpaired surrogate');

/** Counts characters, as JSON Schema does, where JavaScript counts two for many of them. */
function atMost(characters: number, schema: z.ZodString): z.ZodString {
  return schema
    .refine((value) => [...value].length <= characters, `must be at most ${characters} characters long`)
    .meta({ maxLength: characters });
}

function transferUri(field: 'source_uri' | 'destination_uri') {
  return text.superRefine((value, context) => {
    try {
      const uri = parseTransferUri(value, field);
      if (field === 'source_uri' && fileName(uri) === '') {
        context.addIssue({ code: 'custom', message: 'must name a file: it ends in a slash or names no path' });
      }
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      context.addIssue({ code: 'custom', message: error.message, params: { code: error.code } });
    }
  });
}

// Before the record: that leaves out `__proto__` without a word.
const metadata = z.preprocess(
  (value, context) => {
    const reserved = typeof value === 'object' && value !== null && RESERVED_KEYS.some((key) => Object.hasOwn(value, key));
    if (reserved) context.addIssue({ code: 'custom', message: `must not use the keys ${RESERVED_KEYS.join(', ')}` });
    return value;
  },
  z
    .record(atMost(METADATA_CHARACTERS, text.min(1)), atMost(METADATA_CHARACTERS, text))
    .refine((value) => Object.keys(value).length <= METADATA_KEYS, `must have at most ${METADATA_KEYS} keys`)
    .meta({ maxProperties: METADATA_KEYS }),
);

/** Body of POST /v1/transfers. */
export const transferRequest = z.strictObject({
  source_uri: transferUri('source_uri').describe('Where the file is read: sftp://, ftps://, s3:// or azure://.'),
  destination_uri: transferUri('destination_uri').describe(
    'Where the file is written, on a configured endpoint; the file name is appended where it ends in a slash.',
  ),
  priority: z.enum(PRIORITIES).default('normal'),
  notify_on_complete: z.boolean().default(false),
  metadata: metadata.default({}).describe('Your own key-value pairs: at most 10 keys, each value at most 256 characters.'),
});
export type TransferRequest = z.output<typeof transferRequest>;

const MAX_CONNECTIONS = 16;

const host = text
  .min(1)
  .max(253)
  .regex(/^[^\s/@?#\\]+$/, 'must be a host name or an address')
  .toLowerCase();
const port = z.int().min(1).max(65_535);
const secret = text.min(1).max(16_384);
const basePath = text
  .max(1024)
  .regex(/^\//, 'must start with a slash')
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..');
const prefix = text.max(1024).refine((path) => !path.split('/').includes('..'), 'must not contain ..');
const pem = text
  .regex(/^\s*-----BEGIN CERTIFICATE-----/, 'must be a certificate in PEM form')
  .nullable()
  .default(null);
const url = z
  .url({ protocol: /^https?$/, message: 'must be an http or https URL' })
  // What a parser would drop or encode without a word.
  .refine((value) => !/[\s\p{C}]/u.test(value), 'must not contain spaces or characters that are not shown')
  .nullable()
  .default(null);

/**
 * The secrets of each protocol, by the ways to sign in that take them. Of several ways an endpoint has one: the one
 * whose first secret is given.
 */
const SECRETS = {
  sftp: {
    password: { password: secret.optional() },
    private_key: { private_key: secret.optional(), passphrase: secret.optional() },
  },
  ftps: { password: { password: secret } },
  s3: { access_key: { access_key_id: secret, secret_access_key: secret } },
  azure: { account_key: { account_key: secret.optional() }, sas_token: { sas_token: secret.optional() } },
} satisfies Record<Protocol, Partial<Record<SignIn, z.ZodRawShape>>>;

const common = {
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be 1 to 63 lowercase letters, digits and hyphens, and not start with a hyphen'),
  max_connections: z
    .int()
    .min(1)
    .max(256)
    .default(MAX_CONNECTIONS)
    .describe('Transfers that use it at once. Each mover has as many connections at most for reading, and as many for writing.'),
  accounts: z.array(text.min(1).max(64)).min(1).nullable().default(null).describe('Accounts that may use it; all of them by default.'),
  overwrite: z.boolean().default(true).describe('Replace an existing destination file.'),
};

const sftp = z.strictObject({
  ...common,
  protocol: z.literal('sftp'),
  host,
  port: port.default(DEFAULT_PORTS.sftp),
  base_path: basePath.default('/'),
  username: text.min(1).max(256),
  ...SECRETS.sftp.password,
  ...SECRETS.sftp.private_key,
  host_key_sha256: z
    .string()
    .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'must be as `ssh-keygen -l` prints it: SHA256: and 43 characters')
    .nullable()
    .default(null),
});

const ftps = z.strictObject({
  ...common,
  protocol: z.literal('ftps'),
  host,
  port: port.optional(),
  base_path: basePath.default('/'),
  username: text.min(1).max(256),
  ...SECRETS.ftps.password,
  tls: z.enum(['explicit', 'implicit']).default('explicit'),
  ca_pem: pem,
});

const s3 = z.strictObject({
  ...common,
  protocol: z.literal('s3'),
  bucket: text.min(1).max(255),
  prefix: prefix.default(''),
  region: text.min(1).max(64).default('us-east-1'),
  endpoint_url: url,
  force_path_style: z.boolean().default(false),
  ...SECRETS.s3.access_key,
  ca_pem: pem,
  storage_class: text.max(64).nullable().default(null),
  sse: z.enum(['AES256', 'aws:kms']).nullable().default(null),
  sse_kms_key_id: text.max(2048).nullable().default(null),
});

const azure = z.strictObject({
  ...common,
  protocol: z.literal('azure'),
  account: text.min(1).max(64),
  container: text.min(1).max(63),
  prefix: prefix.default(''),
  endpoint_url: url,
  ...SECRETS.azure.account_key,
  ...SECRETS.azure.sas_token,
  ca_pem: pem,
});

/** What an endpoint is made of, credentials included, by protocol. */
export const ENDPOINT_FIELDS = { sftp, ftps, s3, azure };

/** One endpoint as a file or a request gives it, credentials included. */
export const endpointRequest = z.discriminatedUnion('protocol', [sftp, ftps, s3, azure]).superRefine((value, context) => {
  requireOneSecret(value, context);
  refuseSecretsThatClash(value, context);
});
export type EndpointRequest = z.output<typeof endpointRequest>;

/** A whole definition of an endpoint that is there; without credentials it keeps those that it has. */
export const endpointUpdate = z
  .discriminatedUnion('protocol', [
    sftp,
    ftps.extend({ password: secret.optional() }),
    s3.extend({ access_key_id: secret.optional(), secret_access_key: secret.optional() }),
    azure,
  ])
  .superRefine(refuseSecretsThatClash);
export type EndpointUpdate = z.output<typeof endpointUpdate>;

/** True where an update brings new credentials: it is then as good as a request. */
export function hasCredentials(update: EndpointUpdate): update is EndpointRequest {
  return secretsOf(update)
    .flat()
    .some((name) => isGiven(update, name));
}

/** Names of the secrets of each way to sign in that the protocol has. */
function secretsOf({ protocol }: EndpointUpdate): string[][] {
  return Object.values<z.ZodRawShape>(SECRETS[protocol]).map((secrets) => Object.keys(secrets));
}

/** Secrets of which an endpoint has one. */
function alternatives(value: EndpointUpdate): string[] {
  return secretsOf(value).map(([first]) => first as string);
}

function isGiven(value: EndpointUpdate, name: string): boolean {
  return (value as Record<string, unknown>)[name] !== undefined;
}

function requireOneSecret(value: EndpointRequest, context: z.RefinementCtx): void {
  const names = alternatives(value);
  if (!names.some((name) => isGiven(value, name))) {
    context.addIssue({ code: 'custom', path: [names[0] as string], message: `give either ${names.join(' or ')}` });
  }
}

function refuseSecretsThatClash(value: EndpointUpdate, context: z.RefinementCtx): void {
  const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message });
  const given = alternatives(value).filter((name) => isGiven(value, name));
  if (given.length > 1) refuse(given[0] as string, `give either ${given.join(' or ')}`);
  if (value.protocol === 'sftp' && value.passphrase !== undefined && value.private_key === undefined) {
    refuse('passphrase', 'belongs to a private_key');
  }
  if (value.protocol === 's3' && (value.access_key_id === undefined) !== (value.secret_access_key === undefined)) {
    const missing = value.access_key_id === undefined ? 'access_key_id' : 'secret_access_key';
    refuse(missing, 'is required: the two belong together');
  }
}

export function ftpsPort(request: { port?: number | undefined; tls: 'explicit' | 'implicit' }): number {
  return request.port ?? DEFAULT_PORTS[request.tls];
}

/** What a key is created from. */
export const keyRequest = z.strictObject({
  name: text.min(1).max(128),
  scopes: z.array(z.enum(SCOPES)).min(1),
  account: z
    .string()
    .regex(/^[a-z0-9_][a-z0-9_-]{0,63}$/, 'must be 1 to 64 lowercase letters, digits, underscores and hyphens')
    .default('acc_default'),
  expires_in: z
    .string()
    .regex(/^(never|\d{1,9}(ms|s|m|h|d))$/, 'must be a whole number and a unit, such as 12h or 90d, or never')
    .default('90d')
    .describe('A duration of at most 365d, or `never` where the installation allows it.'),
});
export type KeyRequest = z.output<typeof keyRequest>;
