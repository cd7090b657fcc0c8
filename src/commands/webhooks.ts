import { randomBytes } from 'node:crypto';
import { parseDuration } from '../domain/durations.ts';
import { DomainError, fieldError } from '../domain/errors.ts';
import type { StoredEvent } from '../domain/event.ts';
import { newId } from '../domain/ids.ts';
import { upcast } from '../domain/upcast.ts';
import type { SecretRotated, Webhook, WebhookRegistered, WebhookState } from '../domain/webhook.ts';
import * as webhook from '../domain/webhook.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, handle, untouched } from './handle.ts';
import type { RotationRequest, WebhookChanges, WebhookRequest } from './webhook-requests.ts';

/** What the vault binds a webhook's secret to; the record is `{secret}`. */
export const WEBHOOK_SECRET = 'webhook-secret';
/** Webhooks of one account. */
export const MAX_WEBHOOKS = 50;

const SECRET_BYTES = 32;
const LONGEST_GRACE = '7d';

/** Identities that a registration settles on before it appends, so that it can be repeated after a crash. */
export interface ReservedWebhook {
  webhookId: string;
  eventId: string;
  now: string;
}

export function reserveWebhook(): ReservedWebhook {
  const now = Date.now();
  return { webhookId: newId('whk', now), eventId: newId('evt', now), now: new Date(now).toISOString() };
}

/** A webhook, and its new secret where it was generated: it is shown this once. */
export interface WithSecret {
  webhook: Webhook;
  secret: string | null;
}

/**
 * Registers a webhook; what was registered under the reserved id before is given as it is. Throws
 * `validation_failed` for a URL that may not be delivered to, and `limit_reached` where the account has 50.
 */
export async function registerWebhook(
  deps: CommandDeps,
  accountId: string,
  request: WebhookRequest,
  cause: Cause,
  { webhookId, eventId, now }: ReservedWebhook = reserveWebhook(),
): Promise<WithSecret> {
  const stream = streamOf(webhookId);
  if ((await deps.store.read(stream)).length === 0) {
    refuseUrl(deps, request.url);
    if ((await deps.countWebhooks(accountId)) >= MAX_WEBHOOKS) {
      throw new DomainError(
        'limit_reached',
        `The account has ${MAX_WEBHOOKS} webhooks, and no more are allowed: remove one that it does not need`,
      );
    }
    const { url, events } = request;
    const secret_record = await seal(deps, request.secret);
    const data = { webhook_id: webhookId, account_id: accountId, url, events, secret_record, created_at: now };
    const options = { reserved: { eventId, now }, known: untouched(webhook.initialState) };
    await handle(deps.store, webhook, stream, { type: 'register', data }, cause, options);
  }
  return answer(deps, stream, request.secret, ({ type }) => type === 'webhook.registered');
}

/** Changes what is given. Throws `not_found`, or `validation_failed` for a URL that may not be delivered to. */
export async function updateWebhook(deps: CommandDeps, webhookId: string, changes: WebhookChanges, cause: Cause): Promise<Webhook> {
  if (changes.url !== undefined) refuseUrl(deps, changes.url);
  const { url, events, enabled } = changes;
  const given = { ...(url !== undefined && { url }), ...(events && { events }), ...(enabled !== undefined && { enabled }) };
  const handled = await handle(deps.store, webhook, streamOf(webhookId), { type: 'update', changes: given, now: now() }, cause);
  await deps.waitFor('catalog', handled.position);
  return existing(handled.state);
}

/**
 * Gives a webhook another secret; the one of now signs as well until its grace time ends. Done once for a
 * request, which the correlation id tells. Throws `not_found`, or `validation_failed` for a grace of more than 7d.
 */
export async function rotateWebhookSecret(
  deps: CommandDeps,
  webhookId: string,
  request: RotationRequest,
  cause: Cause,
): Promise<WithSecret> {
  const grace = parseDuration(request.grace);
  if (grace > parseDuration(LONGEST_GRACE)) throw fieldError('grace', `must be at most ${LONGEST_GRACE}`);
  const stream = streamOf(webhookId);
  const isThisRotation = ({ type, metadata }: StoredEvent) =>
    type === 'webhook.secret_rotated' && metadata.correlation_id === cause.correlationId;
  if (!(await deps.store.read(stream)).some(isThisRotation)) {
    const secret_record = await seal(deps, request.secret);
    const at = Date.now();
    const previous_until = grace === 0 ? null : new Date(at + grace).toISOString();
    const command = { type: 'rotate_secret', secret_record, previous_until, now: new Date(at).toISOString() } as const;
    await handle(deps.store, webhook, stream, command, cause);
  }
  return answer(deps, stream, request.secret, isThisRotation);
}

/** Nothing is delivered to it any more. Does nothing where it was removed before; throws `not_found`. */
export async function removeWebhook(deps: CommandDeps, webhookId: string, cause: Cause): Promise<void> {
  const { position } = await handle(deps.store, webhook, streamOf(webhookId), { type: 'remove', now: now() }, cause);
  await deps.waitFor('catalog', position);
}

function refuseUrl(deps: CommandDeps, url: string): void {
  const objection = deps.objectionToWebhookUrl(url);
  if (objection !== null) throw fieldError('url', objection);
}

function seal({ vault }: CommandDeps, given: string | undefined): Promise<string> {
  const secret = given ?? webhook.STANDARD_SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
  return vault.seal(WEBHOOK_SECRET, { secret });
}

/** What the log says now that the command is done, whoever did it. The event that is looked for names the secret. */
async function answer(
  deps: CommandDeps,
  stream: string,
  given: string | undefined,
  isNaming: (event: StoredEvent) => boolean,
): Promise<WithSecret> {
  const events = (await deps.store.read(stream)).map(upcast);
  await deps.waitFor('catalog', events.at(-1)?.position ?? null);
  const state = existing(events.reduce(webhook.evolve, webhook.initialState()));
  if (given !== undefined) return { webhook: state, secret: null };
  const naming = events.find(isNaming) as StoredEvent;
  const { secret_record } = naming.data as WebhookRegistered | SecretRotated;
  const { secret } = await deps.vault.open<{ secret: string }>(secret_record, WEBHOOK_SECRET);
  return { webhook: state, secret };
}

function existing(state: WebhookState): Webhook {
  if (state.status === 'none') throw new DomainError('not_found', 'There is no such webhook');
  return state;
}

function now(): string {
  return new Date().toISOString();
}

export function streamOf(webhookId: string): string {
  return `webhook-${webhookId}`;
}
