import { randomBytes } from 'node:crypto';
import { WEBHOOK_SECRET } from '../adapters/vault.ts';
import type {
  RotationRequest,
  WebhookChanges,
  WebhookRequest,
} from '../contract/webhooks/requests.ts';
import { durationWithin, parseDuration } from '../domain/durations.ts';
import { DomainError, fieldError, notFound } from '../domain/errors.ts';
import { fold } from '../domain/events/decider.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import type {
  SecretRotated,
  Webhook,
  WebhookRegistered,
  WebhookSettings,
  WebhookState,
} from '../domain/webhook.ts';
import { STANDARD_SECRET_PREFIX, webhookDecider } from '../domain/webhook.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, handle, untouched } from './handle.ts';

/** Maximum number of webhooks of one account. */
export const MAX_WEBHOOKS = 50;

const SECRET_BYTES = 32;
const LONGEST_GRACE = '7d';

/** Id and time that a registration fixes before it appends. A retry after a crash uses the same. */
export interface ReservedWebhook {
  webhookId: string;
  now: string;
}

export function reserveWebhook(): ReservedWebhook {
  const now = Date.now();
  return {
    webhookId: newId('whk', now),
    now: new Date(now).toISOString(),
  };
}

/** A webhook, and its secret if Waybill generated a new one. The secret is shown only this once. */
export interface WithSecret {
  webhook: Webhook;
  secret: string | null;
}

/**
 * Registers a webhook. If the reserved id is already registered, it returns that webhook unchanged.
 * Throws `validation_failed` for a URL that must not receive deliveries, and `limit_reached` if the
 * account has 50 webhooks.
 */
export async function registerWebhook(
  deps: CommandDeps,
  accountId: string,
  request: WebhookRequest,
  cause: Cause,
  { webhookId, now }: ReservedWebhook = reserveWebhook(),
): Promise<WithSecret> {
  const stream = streamName('webhook', webhookId);
  if ((await deps.store.read(stream)).length === 0) {
    refuseUrl(deps, request.url);
    if ((await deps.countWebhooks(accountId)) >= MAX_WEBHOOKS) {
      throw new DomainError(
        'limit_reached',
        `The account has ${MAX_WEBHOOKS} webhooks, which is the limit: remove one that it ` +
          'does not need',
      );
    }
    const { secret, ...settings } = request;
    const data = {
      webhook_id: webhookId,
      account_id: accountId,
      ...settings,
      secret_record: await seal(deps, secret),
      created_at: now,
    };
    const options = { reserved: { now }, known: untouched(webhookDecider.initialState) };
    await handle(deps.store, webhookDecider, stream, { type: 'register', data }, cause, options);
  }
  return answer(deps, stream, request.secret, ({ type }) => type === 'webhook.registered');
}

/**
 * Changes the given settings. Throws `not_found`, or `validation_failed` for a URL that must not
 * receive deliveries.
 */
export async function updateWebhook(
  deps: CommandDeps,
  webhookId: string,
  changes: WebhookChanges,
  cause: Cause,
): Promise<Webhook> {
  if (changes.url !== undefined) refuseUrl(deps, changes.url);
  const settings = changes as Partial<WebhookSettings>;
  const handled = await handle(
    deps.store,
    webhookDecider,
    streamName('webhook', webhookId),
    (now) => ({ type: 'update', changes: settings, now }) as const,
    cause,
  );
  await deps.waitFor('catalog', handled.position);
  return existing(handled.state);
}

/**
 * Replaces the secret of a webhook. The current secret also signs until the grace time ends. A
 * repeated request, recognized by its correlation id, rotates only once. Throws `not_found`, or
 * `validation_failed` for a grace time of more than 7d.
 */
export async function rotateWebhookSecret(
  deps: CommandDeps,
  webhookId: string,
  request: RotationRequest,
  cause: Cause,
): Promise<WithSecret> {
  const grace = durationWithin(request.grace, 0, parseDuration(LONGEST_GRACE));
  if (grace === null) throw fieldError('grace', `must be at most ${LONGEST_GRACE}`);
  const stream = streamName('webhook', webhookId);
  const isThisRotation = ({ type, metadata }: StoredEvent) =>
    type === 'webhook.secret_rotated' && metadata.correlation_id === cause.correlationId;
  const secret_record = await seal(deps, request.secret);
  const command = (now: string) => {
    const previous_until = grace === 0 ? null : new Date(Date.parse(now) + grace).toISOString();
    return { type: 'rotate_secret', secret_record, previous_until, now } as const;
  };
  await handle(deps.store, webhookDecider, stream, command, cause, { unless: isThisRotation });
  return answer(deps, stream, request.secret, isThisRotation);
}

/** Removes a webhook and ends its deliveries. Does nothing if it is removed. Throws `not_found`. */
export async function removeWebhook(
  deps: CommandDeps,
  webhookId: string,
  cause: Cause,
): Promise<void> {
  const { position } = await handle(
    deps.store,
    webhookDecider,
    streamName('webhook', webhookId),
    (now) => ({ type: 'remove', now }) as const,
    cause,
  );
  await deps.waitFor('catalog', position);
}

function refuseUrl(deps: CommandDeps, url: string): void {
  const objection = deps.objectionToWebhookUrl(url);
  if (objection !== null) throw fieldError('url', objection);
}

function seal({ vault }: CommandDeps, given: string | undefined): Promise<string> {
  const secret = given ?? STANDARD_SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
  return vault.seal(WEBHOOK_SECRET, { secret });
}

/**
 * Returns the webhook as the log has it after the command, also if an earlier try appended the
 * event. `isNaming` finds the event that names the record of the secret.
 */
async function answer(
  deps: CommandDeps,
  stream: string,
  given: string | undefined,
  isNaming: (event: StoredEvent) => boolean,
): Promise<WithSecret> {
  const events = await deps.store.read(stream);
  await deps.waitFor('catalog', events.at(-1)?.position ?? null);
  const state = existing(fold(webhookDecider, events));
  if (given !== undefined) return { webhook: state, secret: null };
  const naming = events.find(isNaming) as StoredEvent;
  const { secret_record } = naming.data as WebhookRegistered | SecretRotated;
  const { secret } = await deps.vault.open<{ secret: string }>(secret_record, WEBHOOK_SECRET);
  return { webhook: state, secret };
}

function existing(state: WebhookState): Webhook {
  if (state.status === 'none') throw notFound('webhook');
  return state;
}
