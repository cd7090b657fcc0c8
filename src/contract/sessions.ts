import { z } from 'zod';
import { DEFAULT_ACCOUNT } from '../domain/account.ts';
import { ROLES } from '../domain/role.ts';
import { SCOPES } from '../domain/scope.ts';
import { SESSION_IDLE_MINUTES } from '../domain/session.ts';
import { text } from '../domain/text.ts';
import { timestamp } from './instants.ts';
import { account, EXAMPLE_KEY, keyId, keyName } from './keys.ts';

export const signIn = z
  .strictObject({
    api_key: text
      .min(1, 'is required')
      .describe('A key with a role, or with the scope `admin`.')
      .meta({ examples: [EXAMPLE_KEY] }),
  })
  .meta({ id: 'SignIn' });

/** Query of GET /v1/session/oidc. */
export const beginSignIn = z.strictObject({
  return: text
    .max(2_000)
    .default('')
    // A browser would show the error in place of the console.
    .catch('')
    .describe('The page of the console to open afterwards; Home for one that is too long.'),
});

export const accountChoice = z
  .strictObject({
    account: text
      .min(1)
      .max(64)
      .describe('One of `accounts`.')
      .meta({ examples: [DEFAULT_ACCOUNT] }),
  })
  .meta({ id: 'AccountChoice' });

const person = z
  .strictObject({
    subject: z
      .string()
      .describe("The identity provider's id of the person.")
      .meta({ examples: ['00u1ab2cd'] }),
    name: z.string().nullable(),
    email: z.string().nullable(),
  })
  .meta({ id: 'Person' });

export const signInOptions = z
  .strictObject({
    identity_provider: z
      .string()
      .nullable()
      .describe('The host of the OpenID Connect provider. Null if none is configured.'),
  })
  .meta({ id: 'SignInOptions' });
export type SignInOptions = z.output<typeof signInOptions>;

export const sessionInfo = z
  .strictObject({
    key_id: keyId
      .nullable()
      .describe('The key that signed in. The session ends with the key. Null for a person.'),
    key_name: keyName.nullable(),
    person: person.nullable().describe('Who signed in by OpenID Connect. Null for a key.'),
    account: account.describe('The session sees the transfers and webhooks of this account.'),
    accounts: z.array(account).describe('The accounts that the session may switch to.'),
    roles: z
      .array(z.enum(ROLES))
      .describe('The roles in this account. Empty for a key that was created with scopes.'),
    scopes: z
      .array(z.enum(SCOPES))
      .describe('All that the session may do in this account, with what each scope includes.'),
    sign_out_url: z
      .string()
      .nullable()
      .describe("The page that ends the session at the person's identity provider."),
    expires_at: timestamp.describe(
      `The latest end of the session. It ends earlier after ${SESSION_IDLE_MINUTES} minutes without ` +
        'use, and when a person has lost the role.',
    ),
  })
  .meta({ id: 'Session' });
export type SessionInfo = z.output<typeof sessionInfo>;
