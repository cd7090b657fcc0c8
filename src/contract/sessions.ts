import { z } from 'zod';
import { text } from '../domain/text.ts';
import { timestamp } from './instants.ts';
import { account, EXAMPLE_KEY, keyId, keyName } from './keys.ts';

export const signIn = z
  .strictObject({
    api_key: z
      .string()
      .min(1, 'is required')
      .describe('A key with the scope `admin`.')
      .meta({ examples: [EXAMPLE_KEY] }),
  })
  .meta({ id: 'SignIn' });

export const accountChoice = z
  .strictObject({
    account: text
      .min(1)
      .max(64)
      .describe('One of `accounts`.')
      .meta({ examples: ['acc_default'] }),
  })
  .meta({ id: 'AccountChoice' });

export const sessionInfo = z
  .strictObject({
    key_id: keyId.describe('The key that signed in. The session ends with the key.'),
    key_name: keyName,
    account: account.describe('The session sees the transfers and webhooks of this account.'),
    accounts: z.array(account).describe('All accounts that have a key.'),
    expires_at: timestamp.describe(
      'The latest end of the session. It ends earlier after 30 minutes without use.',
    ),
  })
  .meta({ id: 'Session' });
export type SessionInfo = z.output<typeof sessionInfo>;
