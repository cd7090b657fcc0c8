import { EXPIRING_SOON_MS } from './attention.ts';
import { notFound } from './errors.ts';
import type { Decider } from './events/decider.ts';
import { type Event, eventGuard, unknownEvent } from './events/event.ts';
import type { Role } from './role.ts';
import type { Scope } from './scope.ts';

/** How long a key lives, as durations. */
export const LIFETIME = { default: '90d', longest: '365d' } as const;

export interface KeyCreated {
  key_id: string;
  account_id: string;
  name: string;
  /** With a role, the scopes that the role had when the key was created. */
  scopes: Scope[];
  /** Missing for a key that was created with scopes. */
  role?: Role;
  /** Lowercase hex SHA-256 of the key. The key itself is shown once and stored nowhere. */
  sha256: string;
  last_four: string;
  /** null for a key that never expires. */
  expires_at: string | null;
  created_at: string;
}

export interface KeyExpiringSoon {
  key_id: string;
  name: string;
  expires_at: string;
  days_remaining: number;
}

export type KeyEvent =
  | Event<'key.created', KeyCreated>
  | Event<'key.revoked', { revoked_at: string }>
  | Event<'key.expiring_soon', KeyExpiringSoon>;

export type Key = KeyCreated & {
  status: 'active' | 'revoked';
  revoked_at: string | null;
  announced: boolean;
};
export type KeyState = { status: 'none' } | Key;

export type KeyCommand =
  | { type: 'create'; data: KeyCreated }
  | { type: 'revoke'; now: string }
  /** Announces, once, that the key expires soon. */
  | { type: 'announce_expiry'; now: string };

function initialState(): KeyState {
  return { status: 'none' };
}

/** Throws `not_found` for a key that does not exist. */
function decide(command: KeyCommand, state: KeyState): KeyEvent[] {
  if (command.type === 'create')
    return state.status === 'none' ? [{ type: 'key.created', data: command.data }] : [];
  if (state.status === 'none') throw notFound('key');
  if (state.status === 'revoked') return [];
  if (command.type === 'revoke')
    return [{ type: 'key.revoked', data: { revoked_at: command.now } }];
  return announceExpiry(command.now, state);
}

function announceExpiry(now: string, state: Key): KeyEvent[] {
  const { key_id, name, expires_at } = state;
  if (expires_at === null || state.announced) return [];
  const left = Date.parse(expires_at) - Date.parse(now);
  if (left <= 0 || left > EXPIRING_SOON_MS) return [];
  const days_remaining = Math.ceil(left / (24 * 3_600_000));
  return [{ type: 'key.expiring_soon', data: { key_id, name, expires_at, days_remaining } }];
}

const isKeyEvent = eventGuard<KeyEvent>({
  'key.created': true,
  'key.revoked': true,
  'key.expiring_soon': true,
});

function evolve(state: KeyState, event: Event): KeyState {
  if (!isKeyEvent(event) || state.status === 'revoked') return state;
  if (state.status === 'none') {
    return event.type === 'key.created'
      ? { ...event.data, status: 'active', revoked_at: null, announced: false }
      : state;
  }
  switch (event.type) {
    case 'key.created':
      return state;
    case 'key.revoked':
      return { ...state, status: 'revoked', revoked_at: event.data.revoked_at };
    case 'key.expiring_soon':
      return { ...state, announced: true };
    default:
      return unknownEvent(event);
  }
}

function accountOf(state: KeyState): string | null {
  return state.status === 'none' ? null : state.account_id;
}

export const keyDecider: Decider<KeyState, KeyCommand, KeyEvent> = {
  initialState,
  decide,
  evolve,
  accountOf,
};
