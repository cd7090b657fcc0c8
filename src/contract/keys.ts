import { z } from 'zod';
import { ACCOUNT, DEFAULT_ACCOUNT } from '../domain/account.ts';
import { EXPIRING_SOON_DAYS, EXPIRING_SOON_MS } from '../domain/attention.ts';
import type * as domain from '../domain/key.ts';
import { LIFETIME } from '../domain/key.ts';
import { ROLES } from '../domain/role.ts';
import { SCOPES } from '../domain/scope.ts';
import { title } from '../domain/text.ts';
import { eachOnce } from './each-once.ts';
import { timestamp } from './instants.ts';

export const EXAMPLE_KEY = 'wb_0123456789abcdefghijklmnopqrstuvwxyz01_23456789';

export const keyId = z.string().meta({ examples: ['key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });

export const keyName = z.string().meta({ examples: ['nightly reports'] });
export const account = z.string().meta({ examples: [DEFAULT_ACCOUNT] });

/** A name that an account can have. Logs contain endpoints with others. */
export const requestedAccount = z
  .string()
  .regex(ACCOUNT, 'must be 1 to 64 lowercase letters, digits, underscores and hyphens');

export const keyParams = z.object({ key_id: keyId });

/** Body of POST /v1/keys. */
export const keyRequest = z
  .strictObject({
    name: title
      .min(1)
      .max(128)
      .meta({ examples: ['nightly reports'] }),
    scopes: z
      .array(z.enum(SCOPES))
      .min(1)
      .max(SCOPES.length)
      .overwrite(eachOnce)
      .optional()
      .describe('Required without `role`.')
      .meta({ examples: [['transfers:write']] }),
    role: z.enum(ROLES).optional().describe('A named set of scopes, instead of `scopes`.'),
    account: requestedAccount.default(DEFAULT_ACCOUNT),
    expires_in: z
      .string()
      .regex(
        /^(never|\d{1,9}(ms|s|m|h|d))$/,
        'must be a whole number and a unit, such as 12h or 90d, or never',
      )
      .default(LIFETIME.default)
      .describe(
        `A duration of at most ${LIFETIME.longest}, or \`never\` if the installation allows it.`,
      ),
  })
  .refine(({ scopes, role }) => (scopes === undefined) !== (role === undefined), {
    path: ['scopes'],
    message: 'must be given, or else role: exactly one of the two',
  })
  .meta({ id: 'KeyRequest' });
export type KeyRequest = z.output<typeof keyRequest>;

const fields = {
  id: keyId,
  name: keyName,
  account,
  scopes: z.array(z.enum(SCOPES)),
  role: z.enum(ROLES).nullable().describe('Null for a key that was created with scopes.'),
  last_four: z
    .string()
    .describe('The last four characters of the key.')
    .meta({ examples: ['6789'] }),
  status: z.enum(['active', 'expired', 'revoked']).meta({ id: 'KeyStatus' }),
  expiring_soon: z.boolean().describe(`Active, and expires within ${EXPIRING_SOON_DAYS} days.`),
  created_at: timestamp,
  expires_at: timestamp.nullable().describe('Null for a key that never expires.'),
  revoked_at: timestamp.nullable(),
};

export const key = z
  .strictObject({
    ...fields,
    last_used_at: timestamp.nullable().describe('To the minute. Null if the key was never used.'),
  })
  .meta({ id: 'Key' });
export type Key = z.output<typeof key>;

export const keyList = z
  .strictObject({
    data: z.array(key).describe('Newest first, including revoked and expired keys.'),
  })
  .meta({ id: 'KeyList' });
export type KeyList = z.output<typeof keyList>;

export const createdKey = z
  .strictObject({
    ...key.shape,
    key: z
      .string()
      .optional()
      .describe('The key itself, shown once. A replayed answer omits it.')
      .meta({ examples: [EXAMPLE_KEY] }),
  })
  .meta({ id: 'CreatedKey' });
export type CreatedKey = z.output<typeof createdKey>;

/** Returns a key as clients see it. `last_used_at` is null if it was never used. */
export function toKey({
  key_id,
  name,
  account_id,
  scopes,
  role,
  last_four,
  created_at,
  expires_at,
  revoked_at,
  last_used_at,
}: domain.Key & { last_used_at: string | null }): Key {
  const left = expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at) - Date.now();
  const status = revoked_at !== null ? 'revoked' : left <= 0 ? 'expired' : 'active';
  return {
    id: key_id,
    name,
    account: account_id,
    scopes,
    role: role ?? null,
    last_four,
    status,
    expiring_soon: status === 'active' && left <= EXPIRING_SOON_MS,
    created_at,
    expires_at,
    revoked_at,
    last_used_at,
  };
}
