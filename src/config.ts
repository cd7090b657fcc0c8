import { isIP } from 'node:net';
import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { parseDuration } from './domain/durations.ts';
import { PROTOCOL_NAMES } from './domain/protocols/index.ts';
import { parseRoleRule, ROLES, type RoleRule } from './domain/role.ts';
import { anyOf } from './domain/text.ts';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The settings are not valid. `problems` and the message name every fault and what to do. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: string[];

  constructor(problems: string[]) {
    super(`The settings are not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.problems = problems;
  }
}

function wholeNumber(min: number, max: number) {
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

const durations = list(
  isDuration,
  'must be durations separated by commas, one for each retry, such as 10s,60s,300s',
).transform((items) => items.map(parseDuration));
const addresses = list(
  (item) => isIP(item) !== 0 || isCidr(item),
  'must be addresses or ranges separated by commas, such as 10.0.0.0/8',
);
const roleRules = list(
  (item) => parseRoleRule(item) !== null,
  'must be rules separated by commas, such as groups:ops=operator@acc_default or ' +
    `email:ann@example.com=admin@*, with one of the roles ${anyOf(ROLES)}`,
).transform((items) => items.map((item) => parseRoleRule(item) as RoleRule));
const checkpointSinks = list(
  isCheckpointSink,
  'must be URLs separated by commas: file:///FOLDER, s3://ENDPOINT/FOLDER/ or https://... of a ' +
    'witness (http only on 127.0.0.1 and localhost)',
);
const cidrs = list(isCidr, 'must be ranges separated by commas, such as 10.0.0.0/8,fd00::/8');

const settings = z.object({
  WAYBILL_HOST: z.string().default('127.0.0.1'),
  WAYBILL_PORT: wholeNumber(0, 65_535).default(8080),
  WAYBILL_TLS_CERT: z.string().optional(),
  WAYBILL_TLS_KEY: z.string().optional(),
  WAYBILL_TRUSTED_PROXIES: addresses.default([]),
  WAYBILL_PUBLIC_URL: z
    .string()
    .refine(
      (text) => /^https?:$/.test(URL.parse(text)?.protocol ?? '') && isOrigin(text),
      'must be a scheme and a host, such as https://waybill.example.com',
    )
    .transform((text) => new URL(text).origin)
    .optional(),
  WAYBILL_OIDC_ISSUER: z
    .string()
    .refine(
      isIssuer,
      'must be an https URL, as the provider names itself (http only on 127.0.0.1 and localhost)',
    )
    .optional(),
  WAYBILL_OIDC_CLIENT_ID: z.string().optional(),
  WAYBILL_OIDC_CLIENT_SECRET: z.string().optional(),
  WAYBILL_OIDC_ROLES: roleRules.optional(),
  WAYBILL_DATA_DIR: z.string().default('.waybill'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\/./, 'must be postgres://USER:PASSWORD@HOST:PORT/DATABASE')
    .optional(),
  EVENTSTORE_URL: z
    .string()
    .regex(/^esdb(\+discover)?:\/\/./, 'must start with esdb:// or esdb+discover://')
    .optional(),
  WAYBILL_EVENTSTORE_USER: z.string().optional(),
  WAYBILL_EVENTSTORE_PASSWORD: z.string().optional(),
  WAYBILL_EVENTSTORE_CA_FILE: z.string().optional(),
  WAYBILL_STREAM_PREFIX: z
    .string()
    .regex(
      /^[A-Za-z][\w.-]{0,63}$/,
      'must be at most 64 letters, digits, dots, hyphens and underscores, and start with a letter',
    )
    .default('waybill_'),
  WAYBILL_MASTER_KEY: list(
    isMasterKey,
    'must be 32 bytes in base64, as `openssl rand -base64 32` prints them; NEW,OLD during a ' +
      'rotation',
  )
    .transform((keys) => keys.join(','))
    .optional(),
  WAYBILL_RATE_LIMIT: wholeNumber(1, 1_000_000).default(100),
  WAYBILL_MOVERS: wholeNumber(1, 1_000).default(16),
  WAYBILL_MAX_OPEN_TRANSFERS: wholeNumber(1, 1_000_000_000).default(100_000),
  WAYBILL_TRANSFER_RETRY_DELAYS: durations.default([10_000, 60_000, 300_000]),
  WAYBILL_WEBHOOK_RETRY_DELAYS: durations.default([60_000, 300_000, 1_800_000]),
  WAYBILL_WEBHOOK_ALLOW_CIDRS: cidrs.default([]),
  WAYBILL_CHECKPOINT_SINKS: checkpointSinks.default([]),
  WAYBILL_ALLOW_UNLIMITED_KEYS: z
    .enum(['true', 'false'], 'must be true or false')
    .transform((text) => text === 'true')
    .default(false),
  WAYBILL_LOG_LEVEL: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`).default('info'),
});

/** Names of all settings, as in the environment. */
export const SETTING_NAMES = Object.keys(settings.shape);
/** Error messages never repeat the values of these. */
const SECRET = [
  'DATABASE_URL',
  'EVENTSTORE_URL',
  'WAYBILL_EVENTSTORE_PASSWORD',
  'WAYBILL_MASTER_KEY',
  'WAYBILL_OIDC_CLIENT_SECRET',
];
const OIDC = ['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET', 'ROLES'].map(
  (name) => `WAYBILL_OIDC_${name}`,
);

export interface EventStoreSettings {
  readonly url: string;
  /** Null if the URL has user and password, or if the event store needs none. */
  readonly user: string | null;
  readonly password: string | null;
  /** Absolute path of a PEM file. Null for the authorities that the system trusts. */
  readonly caFile: string | null;
}

/** Sign-in by OpenID Connect. */
export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly roles: readonly RoleRule[];
}

/** The settings of one process. Durations in milliseconds, paths absolute. */
export interface Config {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** PEM files. Null for plain http. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** Addresses and ranges whose X-Forwarded-For is trusted. */
  readonly trustedProxies: readonly string[];
  /** Scheme and host that browsers use. Null to take both from each request. */
  readonly publicUrl: string | null;
  /** Null if people sign in with keys only. */
  readonly oidc: OidcSettings | null;
  readonly dataDir: string;
  /** Null for the embedded Postgres. */
  readonly databaseUrl: string | null;
  /** Null for the Postgres log. */
  readonly eventStore: EventStoreSettings | null;
  readonly streamPrefix: string;
  /**
   * Base64 of 32 bytes, or several such keys separated by commas. Null if the key is in the data
   * folder; never null with a `databaseUrl`.
   */
  readonly masterKey: string | null;
  /** Requests per minute and key. */
  readonly rateLimit: number;
  /** Transfers that move at once in one process. */
  readonly movers: number;
  /** Transfers of one account that have not ended. */
  readonly maxOpenTransfers: number;
  readonly transferRetryDelays: readonly number[];
  readonly webhookRetryDelays: readonly number[];
  /** Private ranges that webhooks may target. */
  readonly webhookAllowCidrs: readonly string[];
  /** URLs of the places outside that keep checkpoints. */
  readonly checkpointSinks: readonly string[];
  /** True if keys without an expiry are allowed. */
  readonly allowUnlimitedKeys: boolean;
  readonly logLevel: LogLevel;
}

/**
 * Reads the settings of an environment. An empty value counts as not set. Throws ConfigError, which
 * names every fault at once: invalid values, settings that need each other, and unknown names that
 * start with `WAYBILL_`, also in lower case.
 */
export function parseConfig(environment: Record<string, string | undefined>): Config {
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value?.trim()),
  );
  const parsed = settings.safeParse(given);
  const problems = [
    ...unknownNames(given),
    ...(parsed.error?.issues ?? []).map((issue) => describe(issue, given)),
    ...missing(given),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);

  const value = parsed.data;
  const { WAYBILL_TLS_CERT: certFile, WAYBILL_TLS_KEY: keyFile } = value;
  return Object.freeze({
    host: value.WAYBILL_HOST,
    port: value.WAYBILL_PORT,
    tls:
      certFile && keyFile
        ? Object.freeze({ certFile: resolve(certFile), keyFile: resolve(keyFile) })
        : null,
    trustedProxies: Object.freeze(value.WAYBILL_TRUSTED_PROXIES),
    publicUrl: value.WAYBILL_PUBLIC_URL ?? null,
    oidc: value.WAYBILL_OIDC_ISSUER
      ? Object.freeze({
          issuer: value.WAYBILL_OIDC_ISSUER,
          clientId: value.WAYBILL_OIDC_CLIENT_ID as string,
          clientSecret: value.WAYBILL_OIDC_CLIENT_SECRET as string,
          roles: Object.freeze(value.WAYBILL_OIDC_ROLES as RoleRule[]),
        })
      : null,
    dataDir: resolve(value.WAYBILL_DATA_DIR),
    databaseUrl: value.DATABASE_URL ?? null,
    eventStore: value.EVENTSTORE_URL
      ? Object.freeze({
          url: value.EVENTSTORE_URL,
          user: value.WAYBILL_EVENTSTORE_USER ?? null,
          password: value.WAYBILL_EVENTSTORE_PASSWORD ?? null,
          caFile: value.WAYBILL_EVENTSTORE_CA_FILE
            ? resolve(value.WAYBILL_EVENTSTORE_CA_FILE)
            : null,
        })
      : null,
    streamPrefix: value.WAYBILL_STREAM_PREFIX,
    masterKey: value.WAYBILL_MASTER_KEY ?? null,
    rateLimit: value.WAYBILL_RATE_LIMIT,
    movers: value.WAYBILL_MOVERS,
    maxOpenTransfers: value.WAYBILL_MAX_OPEN_TRANSFERS,
    transferRetryDelays: Object.freeze(value.WAYBILL_TRANSFER_RETRY_DELAYS),
    webhookRetryDelays: Object.freeze(value.WAYBILL_WEBHOOK_RETRY_DELAYS),
    webhookAllowCidrs: Object.freeze(value.WAYBILL_WEBHOOK_ALLOW_CIDRS),
    checkpointSinks: Object.freeze(value.WAYBILL_CHECKPOINT_SINKS),
    allowUnlimitedKeys: value.WAYBILL_ALLOW_UNLIMITED_KEYS,
    logLevel: value.WAYBILL_LOG_LEVEL,
  });
}

function describe(issue: z.core.$ZodIssue, given: Record<string, string | undefined>): string {
  const name = String(issue.path[0]);
  return SECRET.includes(name)
    ? `${name} ${issue.message}`
    : `${name} is "${given[name]}", but ${issue.message}`;
}

function missing(given: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  if (given.DATABASE_URL && !given.WAYBILL_MASTER_KEY) {
    problems.push(
      'WAYBILL_MASTER_KEY is missing, and DATABASE_URL requires it: set it to the output of ' +
        '`openssl rand -base64 32`, and keep it safe',
    );
  }
  for (const [one, other] of [
    ['WAYBILL_TLS_CERT', 'WAYBILL_TLS_KEY'],
    ['WAYBILL_TLS_KEY', 'WAYBILL_TLS_CERT'],
    ['WAYBILL_EVENTSTORE_USER', 'WAYBILL_EVENTSTORE_PASSWORD'],
    ['WAYBILL_EVENTSTORE_PASSWORD', 'WAYBILL_EVENTSTORE_USER'],
  ] as const) {
    if (given[one] && !given[other])
      problems.push(`${other} is missing: ${one} alone has no effect, set both or neither`);
  }
  const absent = OIDC.filter((name) => !given[name]);
  if (absent.length > 0 && absent.length < OIDC.length)
    problems.push(
      `${absent.join(', ')} missing: sign-in by OpenID Connect needs all of ${OIDC.join(', ')}`,
    );
  return [...problems, ...eventStoreProblems(given)];
}

/** Finds settings of the event store that are given twice or have no effect. */
function eventStoreProblems(given: Record<string, string | undefined>): string[] {
  const names = SETTING_NAMES.filter(
    (name) => name.startsWith('WAYBILL_EVENTSTORE_') && given[name],
  );
  const url = given.EVENTSTORE_URL;
  if (url === undefined)
    return names.map((name) => `${name} has no effect without EVENTSTORE_URL: set both or neither`);
  const problems: string[] = [];
  if (given.WAYBILL_EVENTSTORE_USER && url.includes('@'))
    problems.push('EVENTSTORE_URL and WAYBILL_EVENTSTORE_USER both name a user: set one of them');
  if (given.WAYBILL_EVENTSTORE_CA_FILE && /tlscafile=/i.test(url))
    problems.push(
      'EVENTSTORE_URL (tlsCaFile) and WAYBILL_EVENTSTORE_CA_FILE both name a CA file: set one ' +
        'of them',
    );
  const insecure = /[?&]tls=false(&|$)/i.test(url);
  if (insecure)
    problems.push(...names.map((name) => `${name} has no effect with tls=false in EVENTSTORE_URL`));
  return problems;
}

/** Differences up to which an unknown name counts as misspelt. */
const MISSPELT = 3;

function unknownNames(given: Record<string, string | undefined>): string[] {
  return Object.keys(given)
    .filter((name) => /^WAYBILL_/i.test(name) && !SETTING_NAMES.includes(name))
    .map((name) => {
      const meant = nameMeantBy(name.toUpperCase());
      return `${name} is not a setting: ${
        meant === null ? 'docs/settings.md lists them all' : `did you mean ${meant}?`
      }`;
    });
}

/** Returns the setting that an unknown name is nearest to. Null if it is near none. */
function nameMeantBy(name: string): string | null {
  const unprefixed = name.replace('WAYBILL_', '');
  if (SETTING_NAMES.includes(unprefixed)) return unprefixed;
  const nearest = SETTING_NAMES.toSorted(
    (a, b) => distance(name, a) - distance(name, b),
  )[0] as string;
  return distance(name, nearest) <= MISSPELT ? nearest : null;
}

/** Returns the Levenshtein distance: the number of characters to insert, remove or replace. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, character] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] as number) + (character === b[j] ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row.at(-1) as number;
}

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
  if (url === null || `${url.search}${url.hash}${url.username}` !== '') return false;
  const local = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  return url.protocol === 'https:' || (url.protocol === 'http:' && local);
}

function isCheckpointSink(text: string): boolean {
  const url = URL.parse(text);
  if (url?.protocol === 'file:') return url.host === '' && url.pathname.length > 1;
  const remote = PROTOCOL_NAMES.some((name) => url?.protocol === `${name}:`);
  if (remote) return url?.host !== '' && `${url?.password}${url?.search}${url?.hash}` === '';
  return url !== null && url.search === '' && isIssuer(text);
}

function isMasterKey(text: string): boolean {
  const key = Buffer.from(text, 'base64');
  return key.length === 32 && key.toString('base64') === text;
}

/** Rejects short and octal forms: `10/8` would mean 0.0.0.10/8, and `012.0.0.0/8` 10.0.0.0/8. */
function isCidr(text: string): boolean {
  return ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text);
}
