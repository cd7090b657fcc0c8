import { z } from 'zod';
import { timestamp } from '../../commands/answers.ts';
import { text } from '../../commands/requests.ts';

export const signIn = z
  .strictObject({ api_key: z.string().min(1, 'is required').describe('A key with the scope `admin`.') })
  .meta({ id: 'SignIn' });

export const accountChoice = z.strictObject({ account: text.min(1).max(64).describe('One of `accounts`.') }).meta({ id: 'AccountChoice' });

export const sessionInfo = z
  .strictObject({
    key_id: z.string().describe('The key that was signed in with. The session ends with it.'),
    key_name: z.string(),
    account: z.string().describe('The account whose transfers and webhooks the session sees.'),
    accounts: z.array(z.string()).describe('Every account that a key was made for.'),
    expires_at: timestamp.describe('The session ends then at the latest, and after 30 minutes without use.'),
  })
  .meta({ id: 'Session' });
export type SessionInfo = z.output<typeof sessionInfo>;
