import type { Bandwidth } from './bandwidth.ts';
import type { Decider } from './decider.ts';
import { assertSameAudience } from './endpoint-audience.ts';
import { DomainError } from './errors.ts';
import { type Event, eventGuard, unknownEvent } from './event.ts';
import {
  type AnnouncedHostKey,
  hostKeysOf,
  MAX_HOST_KEYS,
  withAccepted,
  withHostKeys,
} from './host-keys.ts';
import {
  type EndpointSettings,
  type ProtocolName,
  protocolOf,
  type SignIn,
} from './protocols/index.ts';
import type { TransferErrorCode } from './transfer-errors.ts';

export interface EndpointOptions {
  /**
   * Limits the transfers that use it at once, across all movers. It also limits the connections of
   * each mover, separately for reading and for writing.
   */
  max_connections: number;
  /** Accounts that may use it; null means all. */
  accounts: string[] | null;
  /** True if a transfer may replace an existing destination file. */
  overwrite: boolean;
  /** Limits the bytes that all its transfers move together. Absent in older events: no limit. */
  bandwidth?: Bandwidth | null;
}

export interface EndpointDefinition extends EndpointOptions {
  settings: EndpointSettings;
}

export interface SealedCredentials {
  /** The vault record that holds the credentials. */
  credentials_record: string;
  sign_in: SignIn;
}

export interface EndpointConfigured extends EndpointDefinition, SealedCredentials {
  endpoint_id: string;
  name: string;
  configured_at: string;
}

export interface ConnectivityLost {
  endpoint_id: string;
  name: string;
  protocol: ProtocolName;
  host: string;
  last_success_at: string | null;
  detected_at: string;
  error: { code: TransferErrorCode; message: string };
}

export interface HostKeyAnnounced extends AnnouncedHostKey {
  endpoint_id: string;
  name: string;
  announced_at: string;
}

export type EndpointEvent =
  | Event<'endpoint.configured', EndpointConfigured>
  | Event<'endpoint.updated', EndpointDefinition>
  | Event<'endpoint.credentials_replaced', SealedCredentials>
  | Event<'endpoint.paused', Record<string, never>>
  | Event<'endpoint.resumed', Record<string, never>>
  | Event<'endpoint.removed', Record<string, never>>
  | Event<'endpoint.connectivity_lost', ConnectivityLost>
  | Event<'endpoint.connectivity_restored', { restored_at: string }>
  | Event<'endpoint.host_key_announced', HostKeyAnnounced>;

export interface Endpoint extends EndpointConfigured {
  status: 'configured';
  paused: boolean;
  /** Set while the endpoint can't be reached. */
  unreachable_since: string | null;
  /** What verified servers have announced so far: see `newHostKeysOf`. */
  announced_host_keys: (AnnouncedHostKey & { announced_at: string })[];
}

export type EndpointState =
  | { status: 'none' }
  | Endpoint
  | { status: 'removed'; endpoint_id: string; name: string };

export type EndpointCommand =
  | { type: 'configure'; data: EndpointConfigured }
  /**
   * Replaces the settings, and the credentials if a new record is given. Without host keys in the
   * new settings, the accepted ones stay if host and port stay the same. Throws `validation_failed`
   * if the server changes and no credentials are given.
   */
  | { type: 'update'; definition: EndpointDefinition; credentials: SealedCredentials | null }
  /** Adds a key that the verified server has announced. Any other key replaces the accepted ones. */
  | { type: 'accept_host_key'; host_key_sha256: string }
  | { type: 'limit_bandwidth'; bandwidth: Bandwidth | null }
  /** Records keys that are new. Does nothing if the key that verified the server is not accepted. */
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
  if (state.status !== 'configured')
    throw new DomainError('not_found', 'There is no such endpoint');
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
  if (JSON.stringify(data) === JSON.stringify(definitionOf(state))) return [];
  return [{ type: 'endpoint.updated', data }];
}

function definitionOf({
  settings,
  max_connections,
  accounts,
  overwrite,
  bandwidth = null,
}: EndpointDefinition): EndpointDefinition {
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
  const isKnown = [...accepted, ...newHostKeysOf(state)].some(({ sha256 }) => sha256 === hostKey);
  const keys = withAccepted(isKnown ? accepted : [], hostKey);
  if (keys.length > MAX_HOST_KEYS) {
    throw new DomainError(
      'validation_failed',
      `This endpoint accepts ${MAX_HOST_KEYS} host keys: remove one first`,
    );
  }
  if (JSON.stringify(keys) === JSON.stringify(accepted)) return [];
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

/** Returns the host name or address that is dialled. */
export function hostOf(settings: EndpointSettings): string {
  return protocolOf(settings).host(settings);
}

/** Returns the server and folder of an endpoint, in one line. */
export function addressIn(settings: EndpointSettings): string {
  const values = settings as unknown as Record<string, unknown>;
  return protocolOf(settings).address.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** Returns true if the server proves its identity by a host key that an administrator accepts. */
export function hasHostKey(
  settings: EndpointSettings,
): settings is Extract<EndpointSettings, { host_key_sha256: string | null }> {
  return 'host_key_sha256' in settings;
}

/**
 * Returns the keys that the server has announced and that are not accepted. A key counts only while
 * the key that verified the server is accepted: it may have been another server.
 */
export function newHostKeysOf({
  settings,
  announced_host_keys,
}: Pick<Endpoint, 'settings' | 'announced_host_keys'>): Endpoint['announced_host_keys'] {
  if (!hasHostKey(settings)) return [];
  const accepted = new Set(hostKeysOf(settings).map(({ sha256 }) => sha256));
  // A row that an older version wrote has no announced keys until the catalog is rebuilt.
  return (announced_host_keys ?? []).filter(
    ({ sha256, verified_by }) => accepted.has(verified_by) && !accepted.has(sha256),
  );
}

/** Returns the error code for a server that fails to prove its identity. */
export function distrustOf(settings: EndpointSettings): TransferErrorCode {
  return hasHostKey(settings) ? 'host_key_mismatch' : 'tls_error';
}

/** Returns false for an object store: its endpoints have a prefix instead of a folder. */
export function hasFolders(
  settings: EndpointSettings,
): settings is Extract<EndpointSettings, { base_path: string }> {
  return 'base_path' in settings;
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
