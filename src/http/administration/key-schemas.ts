import { z } from 'zod';
import { timestamp } from '../../commands/answers.ts';
import { keyRequest } from '../../commands/requests.ts';
import { SCOPES } from '../../domain/key.ts';

export const keyParams = z.object({ key_id: z.string().meta({ examples: ['key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }) });

export const keyBody = keyRequest.meta({ id: 'KeyRequest' });

const fields = {
  id: z.string().meta({ examples: ['key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  name: z.string(),
  account: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  last_four: z.string().describe('Its last four characters.'),
  status: z.enum(['active', 'expired', 'revoked']),
  expiring_soon: z.boolean().describe('Active, and expires within seven days.'),
  created_at: timestamp,
  expires_at: timestamp.nullable().describe('null for a key that never expires.'),
  revoked_at: timestamp.nullable(),
};

export const key = z
  .strictObject({ ...fields, last_used_at: timestamp.nullable().describe('To the minute; null for one that was not used yet.') })
  .meta({ id: 'Key' });
export type Key = z.output<typeof key>;

export const keyList = z
  .strictObject({ data: z.array(key).describe('Newest first; revoked and expired ones too.') })
  .meta({ id: 'KeyList' });
export type KeyList = z.output<typeof keyList>;

export const createdKey = z
  .strictObject({
    ...key.shape,
    key: z.string().optional().describe('The key itself: shown this once, and left out of a replayed answer.'),
  })
  .meta({ id: 'CreatedKey' });
export type CreatedKey = z.output<typeof createdKey>;
