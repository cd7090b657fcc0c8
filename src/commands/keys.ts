import type { KeyRequest } from '../contract/keys.ts';
import { durationWithin, parseDuration } from '../domain/durations.ts';
import { DomainError, fieldError, notFound } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { type Key, type KeyCreated, type KeyState, keyDecider, LIFETIME } from '../domain/key.ts';
import { ROLE_SCOPES } from '../domain/role.ts';
import { hashApiKey, newApiKey } from './api-key.ts';
import { untilInEffect } from './catalog.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, handle, untouched } from './handle.ts';

export interface CreatedKey {
  id: string;
  /** Shown once; not stored. */
  key: string;
  state: Key;
  /** False if another attempt has created the key. Then `key` is not its secret. */
  isNew: boolean;
}

/**
 * Creates a key, and only one under the same `options.id`. Throws `validation_failed` for a
 * lifetime above `LIFETIME.longest`, and for `never` if the installation does not allow it.
 */
export async function createKey(
  deps: CommandDeps,
  request: KeyRequest,
  cause: Cause,
  options: { allowNever: boolean; id?: string },
): Promise<CreatedKey> {
  const now = Date.now();
  const expires_at = expiry(request.expires_in, now, options.allowNever);
  const secret = newApiKey();
  const { id = newId('key', now) } = options;
  const { role, scopes = [] } = request;
  const data: KeyCreated = {
    key_id: id,
    account_id: request.account,
    name: request.name,
    ...(role ? { scopes: [...ROLE_SCOPES[role]], role } : { scopes }),
    sha256: hashApiKey(secret),
    last_four: secret.slice(-4),
    expires_at,
    created_at: new Date(now).toISOString(),
  };
  const { state, events, position } = await handle(
    deps.store,
    keyDecider,
    streamName('key', id),
    { type: 'create', data },
    cause,
    {
      reserved: { now: data.created_at },
      known: untouched(keyDecider.initialState),
    },
  );
  await deps.waitFor('catalog', position);
  return { id, key: secret, state: existing(state), isNew: events.length > 0 };
}

function existing(state: KeyState): Key {
  if (state.status === 'none') throw notFound('key');
  return state;
}

function expiry(expiresIn: string, now: number, allowNever: boolean): string | null {
  if (expiresIn === 'never') {
    if (allowNever) return null;
    throw fieldError(
      'expires_in',
      'must be a duration: this installation does not allow keys that never expire',
    );
  }
  const life = durationWithin(expiresIn, 1, parseDuration(LIFETIME.longest));
  if (life === null)
    throw fieldError('expires_in', `must be above 0 and at most ${LIFETIME.longest}`);
  return new Date(now + life).toISOString();
}

/**
 * Revokes a key. After this resolves, no process accepts the key. Throws `not_found`, or
 * `unavailable` if it can't confirm that.
 */
export async function revokeKey(deps: CommandDeps, keyId: string, cause: Cause): Promise<void> {
  const { position } = await handle(
    deps.store,
    keyDecider,
    streamName('key', keyId),
    (now) => ({ type: 'revoke', now }) as const,
    cause,
  );
  if (!(await untilInEffect(deps, position))) {
    throw new DomainError(
      'unavailable',
      'The revocation is in the log, but the catalog projection is behind: the key is ' +
        'rejected once it catches up',
    );
  }
}

/** Records, once, that a key expires soon. */
export async function announceKeyExpiry(
  deps: Pick<CommandDeps, 'store'>,
  keyId: string,
  cause: Cause,
): Promise<void> {
  await handle(
    deps.store,
    keyDecider,
    streamName('key', keyId),
    (now) => ({ type: 'announce_expiry', now }) as const,
    cause,
  );
}
