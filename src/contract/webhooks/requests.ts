import { z } from 'zod';
import { STANDARD_SECRET_PREFIX, WEBHOOK_EVENT_TYPES } from '../../domain/webhook.ts';
import { changes } from '../changes.ts';

export const webhookId = z.string().meta({ examples: ['whk_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });

export const webhookParams = z.object({ webhook_id: webhookId });

const LONGEST_URL = 2_048;

const url = z
  .string()
  .max(LONGEST_URL)
  .superRefine((value, context) => {
    const reject = (message: string, code?: string) =>
      context.addIssue({ code: 'custom', message, ...(code && { params: { code } }) });
    // A URL parser would silently drop or convert these.
    if (/[\s\p{C}\\]/u.test(value))
      return reject('must not contain spaces, backslashes or invisible characters');
    const parsed = URL.parse(value);
    // A URL parser also accepts `https:host` and `https:///host`.
    if (!parsed || !/^https?:\/\/[^/]/i.test(value)) return reject('must be an https URL');
    if (parsed.port === '0') return reject('must not use port 0: nothing can listen on it');
    if (parsed.username !== '' || parsed.password !== '')
      return reject(
        'must not contain a user name or password: deliveries are signed instead',
        'credentials_in_uri',
      );
    if (value.includes('#')) return reject('must not have a fragment: HTTP does not send it');
  })
  .describe(
    'Target of the deliveries: https, without user name, password or fragment. Plain http and ' +
      'private addresses only if the operator allows them.',
  )
  .meta({ examples: ['https://receiver.example.com/waybill'] });

const events = z
  .array(z.enum(WEBHOOK_EVENT_TYPES))
  .min(1, 'must name at least one event type')
  .max(WEBHOOK_EVENT_TYPES.length)
  .refine((types) => new Set(types).size === types.length, 'must name each event type once')
  .meta({ uniqueItems: true, examples: [['transfer.completed', 'transfer.failed']] })
  .describe('Event types that are delivered.');

const secret = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must contain only printable characters')
  .refine(
    (value) => [...value].length >= 8 && [...value].length <= 256,
    'must be 8 to 256 characters long',
  )
  .refine(ofStandardSecret(isBase64), `must be base64 after ${STANDARD_SECRET_PREFIX}`)
  .refine(
    ofStandardSecret((encoded) => Buffer.byteLength(encoded, 'base64') >= 8),
    `must encode at least 8 bytes after ${STANDARD_SECRET_PREFIX}: they are the key`,
  )
  .meta({ pattern: undefined, minLength: 8, maxLength: 256 })
  .optional()
  .describe(
    'Signs the deliveries. If you omit it, a secret is generated and shown once, in the answer.',
  );

/** Returns a rule for what follows the prefix of a `whsec_` secret. Any other secret fulfils it. */
function ofStandardSecret(rule: (encoded: string) => boolean): (secret: string) => boolean {
  return (value) =>
    !value.startsWith(STANDARD_SECRET_PREFIX) || rule(value.slice(STANDARD_SECRET_PREFIX.length));
}

function isBase64(value: string): boolean {
  return value !== '' && Buffer.from(value, 'base64').toString('base64') === value;
}

/** Body of POST /v1/webhooks. */
export const webhookRequest = z
  .strictObject({ url, events, secret })
  .meta({ id: 'WebhookRequest' });
export type WebhookRequest = z.output<typeof webhookRequest>;

/** Body of PATCH /v1/webhooks/{id}. Omitted fields stay. */
export const webhookChanges = changes(
  z.strictObject({
    url: url.optional(),
    events: events.optional(),
    enabled: z
      .boolean()
      .optional()
      .describe('While false, new events are not delivered unless you replay them.'),
  }),
).meta({ id: 'WebhookChanges' });
export type WebhookChanges = z.output<typeof webhookChanges>;

const rotation = z
  .strictObject({
    secret,
    grace: z
      .string()
      .regex(/^\d{1,9}(ms|s|m|h|d)$/, 'must be a whole number and a unit, such as 0s or 24h')
      .default('24h')
      .describe('How long the old secret also signs: at most 7d. Use `0s` if it has leaked.'),
  })
  .meta({ id: 'SecretRotation' });

/** Body of POST /v1/webhooks/{id}/rotate-secret. It may be missing. */
export const rotationRequest = rotation.nullish().transform((body) => body ?? rotation.parse({}));
export type RotationRequest = z.output<typeof rotationRequest>;
