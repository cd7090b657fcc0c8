import { DomainError } from './errors.ts';
import { type Event, hasData } from './event.ts';

/** What can be subscribed to: the events of section 6.1 of the interface specification, by their names in the log. */
export const WEBHOOK_EVENT_TYPES = [
  'transfer.created',
  'transfer.in_progress',
  'transfer.completed',
  'transfer.failed',
  'transfer.cancelled',
  'endpoint.connectivity_lost',
  'key.expiring_soon',
] as const;
export type WebhookEventType = (typeof WEBHOOK_EVENT_TYPES)[number];

/** Such a secret says its key in base64, as Standard Webhooks has it. */
export const STANDARD_SECRET_PREFIX = 'whsec_';

/** What the owner of a webhook may change. */
export interface WebhookSettings {
  url: string;
  events: WebhookEventType[];
  /** Nothing that happens while it is false is ever delivered. */
  enabled: boolean;
}

export interface WebhookRegistered {
  webhook_id: string;
  account_id: string;
  url: string;
  events: WebhookEventType[];
  /** The vault record that holds the signing secret. */
  secret_record: string;
  created_at: string;
}

export interface SecretRotated {
  secret_record: string;
  previous_secret_record: string;
  /** Until when the previous secret signs as well; null where it has ended at once. */
  previous_until: string | null;
  rotated_at: string;
}

export type WebhookEvent =
  | Event<'webhook.registered', WebhookRegistered>
  /** Only what has changed. */
  | Event<'webhook.updated', Partial<WebhookSettings> & { updated_at: string }>
  | Event<'webhook.secret_rotated', SecretRotated>
  | Event<'webhook.removed', { removed_at: string }>;

export interface Webhook extends WebhookRegistered, WebhookSettings {
  status: 'active' | 'removed';
  /** The secret before the last rotation, where it was given a time to end. */
  previous: { secret_record: string; until: string } | null;
  updated_at: string;
}

export type WebhookState = { status: 'none' } | Webhook;

export type WebhookCommand =
  | { type: 'register'; data: WebhookRegistered }
  | { type: 'update'; changes: Partial<WebhookSettings>; now: string }
  /** `previous_until`: null ends the secret of now at once. */
  | { type: 'rotate_secret'; secret_record: string; previous_until: string | null; now: string }
  | { type: 'remove'; now: string };

export function initialState(): WebhookState {
  return { status: 'none' };
}

/** What follows from a command; empty where it was done already. Throws `not_found` for a webhook that is not there. */
export function decide(command: WebhookCommand, state: WebhookState): WebhookEvent[] {
  if (command.type === 'register') return state.status === 'none' ? [{ type: 'webhook.registered', data: command.data }] : [];
  if (state.status === 'removed' && command.type === 'remove') return [];
  if (state.status !== 'active') throw new DomainError('not_found', 'There is no such webhook');
  switch (command.type) {
    case 'update':
      return update(command, state);
    case 'rotate_secret':
      return rotateSecret(command, state);
    case 'remove':
      return [{ type: 'webhook.removed', data: { removed_at: command.now } }];
  }
}

function update({ changes, now }: Extract<WebhookCommand, { type: 'update' }>, state: Webhook): WebhookEvent[] {
  const { url, events, enabled } = changes;
  const changed: Partial<WebhookSettings> = {
    ...(url !== undefined && url !== state.url && { url }),
    ...(events !== undefined && !sameTypes(events, state.events) && { events }),
    ...(enabled !== undefined && enabled !== state.enabled && { enabled }),
  };
  return Object.keys(changed).length === 0 ? [] : [{ type: 'webhook.updated', data: { ...changed, updated_at: now } }];
}

function sameTypes(some: WebhookEventType[], others: WebhookEventType[]): boolean {
  return some.length === others.length && some.every((type) => others.includes(type));
}

function rotateSecret(
  { secret_record, previous_until, now }: Extract<WebhookCommand, { type: 'rotate_secret' }>,
  state: Webhook,
): WebhookEvent[] {
  if (secret_record === state.secret_record) return [];
  const data = { secret_record, previous_secret_record: state.secret_record, previous_until, rotated_at: now };
  return [{ type: 'webhook.secret_rotated', data }];
}

/** The state after one more event. Never throws: an event that can't follow leaves the very state that was given. */
export function evolve(state: WebhookState, event: Event): WebhookState {
  if (!hasData(event) || state.status === 'removed') return state;
  const known = event as WebhookEvent;
  if (state.status === 'none') {
    if (known.type !== 'webhook.registered') return state;
    return { ...known.data, status: 'active', enabled: true, previous: null, updated_at: known.data.created_at };
  }
  switch (known.type) {
    case 'webhook.updated':
      return { ...state, ...known.data };
    case 'webhook.secret_rotated': {
      const { secret_record, previous_secret_record, previous_until, rotated_at } = known.data;
      const previous = previous_until === null ? null : { secret_record: previous_secret_record, until: previous_until };
      return { ...state, secret_record, previous, updated_at: rotated_at };
    }
    case 'webhook.removed':
      return { ...state, status: 'removed', previous: null, updated_at: known.data.removed_at };
    default:
      return state;
  }
}

/** Whose it is; null where there is none. */
export function accountOf(state: WebhookState): string | null {
  return state.status === 'none' ? null : state.account_id;
}
