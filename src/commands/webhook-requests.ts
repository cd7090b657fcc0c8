import { z } from 'zod';
import { STANDARD_SECRET_PREFIX, WEBHOOK_EVENT_TYPES } from '../domain/webhook.ts';

const LONGEST_URL = 2_048;

const url = z
  .string()
  .max(LONGEST_URL)
  .superRefine((value, context) => {
    const refuse = (message: string, code?: string) => context.addIssue({ code: 'custom', message, ...(code && { params: { code } }) });
    // What a parser would drop or turn round without a word.
    if (/[\s\p{C}\\]/u.test(value)) return refuse('must not contain spaces, backslashes or characters that are not shown');
    const parsed = URL.parse(value);
    if (!parsed || !/^https?:$/.test(parsed.protocol)) return refuse('must be an https URL');
    if (parsed.username !== '' || parsed.password !== '')
      return refuse('must not hold a user name or password: requests are signed instead', 'credentials_in_uri');
    if (value.includes('#')) return refuse('must not have a fragment: it is never sent');
  })
  .describe(
    'Where deliveries go: https, without user name, password and fragment. Plain http and private addresses only where the operator allows them.',
  )
  .meta({ format: 'uri', examples: ['https://receiver.example.com/waybill'] });

const events = z
  .array(z.enum(WEBHOOK_EVENT_TYPES))
  .min(1, 'must name at least one event type')
  .refine((types) => new Set(types).size === types.length, 'must name each event type once')
  .meta({ uniqueItems: true, examples: [['transfer.completed', 'transfer.failed']] })
  .describe('Event types to be told of.');

const secret = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must have printable characters only')
  .refine((value) => [...value].length >= 8 && [...value].length <= 256, 'must be 8 to 256 characters long')
  .refine(
    (value) => !value.startsWith(STANDARD_SECRET_PREFIX) || isBase64(value.slice(STANDARD_SECRET_PREFIX.length)),
    `must go on in base64 after ${STANDARD_SECRET_PREFIX}`,
  )
  .meta({ pattern: undefined, minLength: 8, maxLength: 256 })
  .optional()
  .describe('What deliveries are signed with. Left out, one is generated and shown in the answer, once.');

function isBase64(value: string): boolean {
  return value !== '' && Buffer.from(value, 'base64').toString('base64') === value;
}

/** Body of POST /v1/webhooks. */
export const webhookRequest = z.strictObject({ url, events, secret });
export type WebhookRequest = z.output<typeof webhookRequest>;

/** Body of PATCH /v1/webhooks/{id}: what is left out stays. */
export const webhookChanges = z.strictObject({
  url: url.optional(),
  events: events.optional(),
  enabled: z.boolean().optional().describe('What happens while it is false is not delivered, unless it is replayed.'),
});
export type WebhookChanges = z.output<typeof webhookChanges>;

/** Body of POST /v1/webhooks/{id}/rotate-secret. */
export const rotationRequest = z.strictObject({
  secret,
  grace: z
    .string()
    .regex(/^\d{1,9}(ms|s|m|h|d)$/, 'must be a whole number and a unit, such as 0s or 24h')
    .default('24h')
    .describe('How long the secret of now signs as well: at most 7d; `0s` where it has leaked.'),
});
export type RotationRequest = z.output<typeof rotationRequest>;
