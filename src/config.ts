import { resolve } from 'node:path';
import { z } from 'zod';
import type { RoleRule } from './domain/role.ts';
import { conflicts } from './settings/conflicts.ts';
import {
  addresses,
  checkpointSinks,
  cidrs,
  durations,
  issuer,
  masterKeys,
  origin,
  path,
  roleRules,
  wholeNumber,
} from './settings/rules.ts';
import { unknownNames } from './settings/unknown-names.ts';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
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

const settings = z.object({
  WAYBILL_HOST: z.string().default('127.0.0.1'),
  WAYBILL_PORT: wholeNumber(0, 65_535).default(8080),
  WAYBILL_TLS_CERT: path.optional(),
  WAYBILL_TLS_KEY: path.optional(),
  WAYBILL_TRUSTED_PROXIES: addresses.default([]),
  WAYBILL_PUBLIC_URL: origin.optional(),
  WAYBILL_OIDC_ISSUER: issuer.optional(),
  WAYBILL_OIDC_CLIENT_ID: z.string().optional(),
  WAYBILL_OIDC_CLIENT_SECRET: z.string().optional(),
  WAYBILL_OIDC_ROLES: roleRules.optional(),
  WAYBILL_DATA_DIR: path.default('.waybill'),
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
  WAYBILL_EVENTSTORE_CA_FILE: path.optional(),
  WAYBILL_STREAM_PREFIX: z
    .string()
    .regex(
      /^[A-Za-z][\w.-]{0,63}$/,
      'must be at most 64 letters, digits, dots, hyphens and underscores, and start with a letter',
    )
    .default('waybill_'),
  WAYBILL_MASTER_KEY: masterKeys.optional(),
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
    ...unknownNames(given, SETTING_NAMES),
    ...(parsed.error?.issues ?? []).map((issue) => describe(issue, given)),
    ...conflicts(given),
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
    : `${name} is "${withoutSignIns(String(given[name]))}", but ${issue.message}`;
}

/** A URL of any setting may have a user and a password, also where none is allowed. */
function withoutSignIns(text: string): string {
  return text.replace(/\/\/[^/\s,]*@/g, '//…@');
}
