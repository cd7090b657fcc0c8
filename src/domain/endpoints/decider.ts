import { DomainError, notFound } from '../errors.ts';
import { canonicalJson } from '../events/canonical-json.ts';
import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard, unknownEvent } from '../events/event.ts';
import {
  type AnnouncedHostKey,
  hostKeysOf,
  MAX_HOST_KEYS,
  withAccepted,
  withHostKeys,
} from '../protocols/host-keys.ts';
import type { EndpointSettings } from '../protocols/index.ts';
import { assertSameAudience } from './audience.ts';
import type { Bandwidth } from './bandwidth.ts';
import {
  type ConnectivityLost,
  type Endpoint,
  type EndpointConfigured,
  type EndpointDefinition,
  type EndpointEvent,
  type EndpointState,
  hasHostKey,
  newHostKeysOf,
  type SealedCredentials,
} from './endpoint.ts';

export type EndpointCommand =
  | { type: 'configure'; data: EndpointConfigured }
  /**
   * Replaces the settings, and the credentials if a new record is given. Without host keys in the
   * new settings, the accepted ones stay if host and port stay the same. Throws `validation_failed`
   * if the server changes and no credentials are given.
   */
  | { type: 'update'; definition: EndpointDefinition; credentials: SealedCredentials | null }
  /**
   * Adds a key that the verified server has announced. Any other key replaces the accepted ones.
   */
  | { type: 'accept_host_key'; host_key_sha256: string }
  | { type: 'limit_bandwidth'; bandwidth: Bandwidth | null }
  /**
   * Records keys that are new. Does nothing if the key that verified the server is not accepted.
   */
  | { type: 'announce_host_keys'; host_keys: AnnouncedHostKey[]; now: string }
  | { type: 'pause' }
  | { type: 'resume' }
  | { type: 'remove' }
  | { type: 'lose_connectivity'; data: ConnectivityLost }
  | { type: 'restore_connectivity'; now: string };

function initialState(): EndpointState {
  return { status: 'none' };
}

/** Throws `not_found` for an endpoint that does not exist. */
function decide(command: EndpointCommand, state: EndpointState): EndpointEvent[] {
  if (command.type === 'configure') {
    if (state.status !== 'none') return [];
    const settings = settleHostKeys(command.data.settings, null);
    return [{ type: 'endpoint.configured', data: { ...command.data, settings } }];
  }
  if (state.status === 'removed' && command.type === 'remove') return [];
  if (state.status !== 'configured') throw notFound('endpoint');
  switch (command.type) {
    case 'update':
      return update(command, state);
    case 'accept_host_key':
      return acceptHostKey(command.host_key_sha256, state);
    case 'limit_bandwidth':
      return updated({ ...state, bandwidth: command.bandwidth }, state);
    case 'announce_host_keys':
      return announceHostKeys(command.host_keys, command.now, state);
    case 'pause':
      return state.paused ? [] : [{ type: 'endpoint.paused', data: {} }];
    case 'resume':
      return state.paused ? [{ type: 'endpoint.resumed', data: {} }] : [];
    case 'remove':
      return [{ type: 'endpoint.removed', data: {} }];
    case 'lose_connectivity':
      return state.unreachable_since === null
        ? [{ type: 'endpoint.connectivity_lost', data: command.data }]
        : [];
    case 'restore_connectivity':
      return state.unreachable_since === null
        ? []
        : [{ type: 'endpoint.connectivity_restored', data: { restored_at: command.now } }];
  }
}

function update(
  command: Extract<EndpointCommand, { type: 'update' }>,
  state: Endpoint,
): EndpointEvent[] {
  if (!command.credentials) assertSameAudience(state.settings, command.definition.settings);
  const definition = {
    ...command.definition,
    settings: settleHostKeys(command.definition.settings, state.settings),
  };
  const events = updated(definition, state);
  if (command.credentials)
    events.push({ type: 'endpoint.credentials_replaced', data: command.credentials });
  return events;
}

/** Returns the event of a new definition; none if it is the one that the endpoint has. */
function updated(next: EndpointDefinition, state: Endpoint): EndpointEvent[] {
  const data = definitionOf(next);
  // The log keeps keys in another order than a request.
  if (canonicalJson(data) === canonicalJson(definitionOf(state))) return [];
  return [{ type: 'endpoint.updated', data }];
}

function definitionOf({
  settings,
  max_connections,
  accounts,
  overwrite,
  bandwidth = null,
}: EndpointDefinition): Required<EndpointDefinition> {
  return { max_connections, accounts, overwrite, bandwidth, settings };
}

/**
 * Returns the settings with their host keys as they are stored. Keeps the accepted keys of the same
 * server if the settings have none, or if they name one of them without the list: a client of an
 * older version does not know the others.
 */
function settleHostKeys(next: EndpointSettings, now: EndpointSettings | null): EndpointSettings {
  if (!hasHostKey(next)) return next;
  const given = (next.host_keys ?? []).map(({ sha256, expires_at }) => ({
    sha256,
    expires_at: expires_at && new Date(expires_at).toISOString(),
  }));
  if (given.length > 0) return withHostKeys(next, given);
  const isSameServer = now && hasHostKey(now) && next.host === now.host && next.port === now.port;
  const accepted = isSameServer ? hostKeysOf(now) : [];
  const named = next.host_key_sha256;
  return named === null || accepted.some(({ sha256 }) => sha256 === named)
    ? withHostKeys(next, accepted)
    : { ...next, host_keys: null };
}

function acceptHostKey(hostKey: string, state: Endpoint): EndpointEvent[] {
  const { settings } = state;
  if (!hasHostKey(settings)) {
    throw new DomainError('validation_failed', 'This endpoint has no host key');
  }
  const accepted = hostKeysOf(settings);
  if (accepted.some(({ sha256, expires_at }) => sha256 === hostKey && expires_at === null))
    return [];
  const isKnown = [...accepted, ...newHostKeysOf(state)].some(({ sha256 }) => sha256 === hostKey);
  const keys = withAccepted(isKnown ? accepted : [], hostKey);
  if (keys.length > MAX_HOST_KEYS) {
    throw new DomainError(
      'validation_failed',
      `This endpoint accepts ${MAX_HOST_KEYS} host keys: remove one first`,
    );
  }
  return updated({ ...state, settings: withHostKeys(settings, keys) }, state);
}

function announceHostKeys(
  hostKeys: AnnouncedHostKey[],
  now: string,
  state: Endpoint,
): EndpointEvent[] {
  const { endpoint_id, name, settings } = state;
  if (!hasHostKey(settings)) return [];
  const accepted = new Set(hostKeysOf(settings).map(({ sha256 }) => sha256));
  const announced = newHostKeysOf(state);
  const known = new Set([...accepted, ...announced.map(({ sha256 }) => sha256)]);
  return (
    hostKeys
      .filter(({ sha256, verified_by }) => accepted.has(verified_by) && !known.has(sha256))
      // A server must not be able to fill the log.
      .slice(0, MAX_HOST_KEYS - announced.length)
      .map((key) => ({
        type: 'endpoint.host_key_announced',
        data: { endpoint_id, name, ...key, announced_at: now },
      }))
  );
}

const isEndpointEvent = eventGuard<EndpointEvent>({
  'endpoint.configured': true,
  'endpoint.updated': true,
  'endpoint.credentials_replaced': true,
  'endpoint.paused': true,
  'endpoint.resumed': true,
  'endpoint.removed': true,
  'endpoint.connectivity_lost': true,
  'endpoint.connectivity_restored': true,
  'endpoint.host_key_announced': true,
});

function evolve(state: EndpointState, event: Event): EndpointState {
  if (!isEndpointEvent(event)) return state;
  if (state.status === 'none') {
    return event.type === 'endpoint.configured'
      ? {
          ...event.data,
          status: 'configured',
          paused: false,
          unreachable_since: null,
          announced_host_keys: [],
        }
      : state;
  }
  if (state.status === 'removed') return state;
  switch (event.type) {
    case 'endpoint.configured':
      return state;
    case 'endpoint.updated':
    case 'endpoint.credentials_replaced':
      return { ...state, ...event.data };
    case 'endpoint.paused':
      return { ...state, paused: true };
    case 'endpoint.resumed':
      return { ...state, paused: false };
    case 'endpoint.removed':
      return { status: 'removed', endpoint_id: state.endpoint_id, name: state.name };
    case 'endpoint.connectivity_lost':
      return { ...state, unreachable_since: event.data.detected_at };
    case 'endpoint.connectivity_restored':
      return { ...state, unreachable_since: null };
    case 'endpoint.host_key_announced': {
      const { sha256, key_type, verified_by, announced_at } = event.data;
      const others = state.announced_host_keys.filter((key) => key.sha256 !== sha256);
      const announced = { sha256, key_type, verified_by, announced_at };
      return { ...state, announced_host_keys: [...others, announced] };
    }
    default:
      return unknownEvent(event);
  }
}

/** Returns null: endpoints belong to the installation, and `accounts` says who may use them. */
function accountOf(): null {
  return null;
}

export const endpointDecider: Decider<EndpointState, EndpointCommand, EndpointEvent> = {
  initialState,
  decide,
  evolve,
  accountOf,
};
