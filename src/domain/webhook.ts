import { changedSettings } from './changed-settings.ts';
import { notFound } from './errors.ts';
import type { Decider } from './events/decider.ts';
import { type Event, eventGuard, unknownEvent } from './events/event.ts';

/** How long a delivered delivery is kept, in days. */
export const DELIVERED_KEPT_DAYS = 7;

/**
 * How long a failed delivery is kept, in days: it can be sent again. As long as a pending one,
 * counted from when it was due, whose webhook stays disabled.
 */
export const FAILED_KEPT_DAYS = 30;

/**
 * The events that a webhook can subscribe to. docs/clients.md lists them. A new type also needs what
 * the compiler cannot ask for: docs/where-to-change.md has the steps.
 */
export const WEBHOOK_EVENT_TYPES = [
  'transfer.created',
  'transfer.in_progress',
  'transfer.completed',
  'transfer.failed',
  'transfer.cancelled',
  'transfer.marker_written',
  'transfer.marker_failed',
  'transfer.source_deleted',
  'transfer.source_moved',
  'transfer.source_kept',
  'batch.completed',
  'flow.run_completed',
  'flow.run_failed',
  'flow.recovered',
  'endpoint.connectivity_lost',
  'key.expiring_soon',
  'log.checkpoint',
] as const;
export type WebhookEventType = (typeof WEBHOOK_EVENT_TYPES)[number];

/** Names that differ between the log and webhooks. */
const DELIVERED_AS: Record<string, WebhookEventType> = {
  'log.checkpoint_signed': 'log.checkpoint',
};

/** Returns the type by which webhooks receive events of this type; null if none does. */
export function webhookTypeOf(type: string): WebhookEventType | null {
  return DELIVERED_AS[type] ?? WEBHOOK_EVENT_TYPES.find((each) => each === type) ?? null;
}

/**
 * True if webhooks of every account may receive events of this type. An endpoint belongs to the
 * installation, and its state says which accounts may use it. A checkpoint says nothing about an
 * account.
 */
export function concernsEveryAccount(type: WebhookEventType): boolean {
  return type === 'endpoint.connectivity_lost' || type === 'log.checkpoint';
}

/** Marks a secret whose remainder is the key in base64, as Standard Webhooks defines it. */
export const STANDARD_SECRET_PREFIX = 'whsec_';

/** The settings that the owner of a webhook may change. */
export interface WebhookSettings {
  url: string;
  events: WebhookEventType[];
  /** While false, new events are not delivered unless they are replayed. */
  enabled: boolean;
}

/** A new webhook is enabled. */
export interface WebhookRegistered extends Omit<WebhookSettings, 'enabled'> {
  webhook_id: string;
  account_id: string;
  /** The vault record that holds the signing secret. */
  secret_record: string;
  created_at: string;
}

export interface SecretRotated {
  secret_record: string;
  previous_secret_record: string;
  /** Until when the previous secret also signs; null if it ended at once. */
  previous_until: string | null;
  rotated_at: string;
}

export type WebhookEvent =
  | Event<'webhook.registered', WebhookRegistered>
  /** Holds only the settings that changed. */
  | Event<'webhook.updated', Partial<WebhookSettings> & { updated_at: string }>
  | Event<'webhook.secret_rotated', SecretRotated>
  | Event<'webhook.removed', { removed_at: string }>;

export interface Webhook extends WebhookRegistered, WebhookSettings {
  status: 'active' | 'removed';
  /** The secret before the last rotation; null if the rotation ended it at once. */
  previous: { secret_record: string; until: string } | null;
  updated_at: string;
}

export type WebhookState = { status: 'none' } | Webhook;

export type WebhookCommand =
  | { type: 'register'; data: WebhookRegistered }
  | { type: 'update'; changes: Partial<WebhookSettings>; now: string }
  /** Replaces the secret. With `previous_until` null, the current secret ends at once. */
  | { type: 'rotate_secret'; secret_record: string; previous_until: string | null; now: string }
  | { type: 'remove'; now: string };

function initialState(): WebhookState {
  return { status: 'none' };
}

/** Throws `not_found` for a webhook that does not exist. */
function decide(command: WebhookCommand, state: WebhookState): WebhookEvent[] {
  if (command.type === 'register')
    return state.status === 'none' ? [{ type: 'webhook.registered', data: command.data }] : [];
  if (state.status === 'removed' && command.type === 'remove') return [];
  if (state.status !== 'active') throw notFound('webhook');
  switch (command.type) {
    case 'update':
      return update(command, state);
    case 'rotate_secret':
      return rotateSecret(command, state);
    case 'remove':
      return [{ type: 'webhook.removed', data: { removed_at: command.now } }];
  }
}

function update(
  { changes, now }: Extract<WebhookCommand, { type: 'update' }>,
  state: Webhook,
): WebhookEvent[] {
  const changed = changedSettings<WebhookSettings>(changes, state, isSame);
  return Object.keys(changed).length === 0
    ? []
    : [{ type: 'webhook.updated', data: { ...changed, updated_at: now } }];
}

/** The order of event types does not count. */
function isSame(one: unknown, other: unknown): boolean {
  return Array.isArray(one) && Array.isArray(other)
    ? one.length === other.length && one.every((item) => other.includes(item))
    : one === other;
}

function rotateSecret(
  { secret_record, previous_until, now }: Extract<WebhookCommand, { type: 'rotate_secret' }>,
  state: Webhook,
): WebhookEvent[] {
  if (secret_record === state.secret_record) return [];
  const data = {
    secret_record,
    previous_secret_record: state.secret_record,
    previous_until,
    rotated_at: now,
  };
  return [{ type: 'webhook.secret_rotated', data }];
}

const isWebhookEvent = eventGuard<WebhookEvent>({
  'webhook.registered': true,
  'webhook.updated': true,
  'webhook.secret_rotated': true,
  'webhook.removed': true,
});

function evolve(state: WebhookState, event: Event): WebhookState {
  if (!isWebhookEvent(event) || state.status === 'removed') return state;
  if (state.status === 'none') {
    if (event.type !== 'webhook.registered') return state;
    return {
      ...event.data,
      status: 'active',
      enabled: true,
      previous: null,
      updated_at: event.data.created_at,
    };
  }
  switch (event.type) {
    case 'webhook.registered':
      return state;
    case 'webhook.updated':
      return { ...state, ...event.data };
    case 'webhook.secret_rotated': {
      const { secret_record, previous_secret_record, previous_until, rotated_at } = event.data;
      const previous =
        previous_until === null
          ? null
          : { secret_record: previous_secret_record, until: previous_until };
      return { ...state, secret_record, previous, updated_at: rotated_at };
    }
    case 'webhook.removed':
      return { ...state, status: 'removed', previous: null, updated_at: event.data.removed_at };
    default:
      return unknownEvent(event);
  }
}

function accountOf(state: WebhookState): string | null {
  return state.status === 'none' ? null : state.account_id;
}

export const webhookDecider: Decider<WebhookState, WebhookCommand, WebhookEvent> = {
  initialState,
  decide,
  evolve,
  accountOf,
};
