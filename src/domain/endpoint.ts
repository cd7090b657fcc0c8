import type { Bandwidth } from './bandwidth.ts';
import type { Decider } from './decider.ts';
import { assertSameAudience } from './endpoint-audience.ts';
import { DomainError } from './errors.ts';
import { type Event, eventGuard, unknownEvent } from './event.ts';
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

export type EndpointEvent =
  | Event<'endpoint.configured', EndpointConfigured>
  | Event<'endpoint.updated', EndpointDefinition>
  | Event<'endpoint.credentials_replaced', SealedCredentials>
  | Event<'endpoint.paused', Record<string, never>>
  | Event<'endpoint.resumed', Record<string, never>>
  | Event<'endpoint.removed', Record<string, never>>
  | Event<'endpoint.connectivity_lost', ConnectivityLost>
  | Event<'endpoint.connectivity_restored', { restored_at: string }>;

export interface Endpoint extends EndpointConfigured {
  status: 'configured';
  paused: boolean;
  /** Set while the endpoint can't be reached. */
  unreachable_since: string | null;
}

export type EndpointState =
  | { status: 'none' }
  | Endpoint
  | { status: 'removed'; endpoint_id: string; name: string };

export type EndpointCommand =
  | { type: 'configure'; data: EndpointConfigured }
  /**
   * Replaces the settings, and the credentials if a new record is given. Without a host key in the
   * new settings, the accepted key stays if host and port stay the same. Throws `validation_failed`
   * if the server changes and no credentials are given.
   */
  | { type: 'update'; definition: EndpointDefinition; credentials: SealedCredentials | null }
  | { type: 'accept_host_key'; host_key_sha256: string }
  | { type: 'limit_bandwidth'; bandwidth: Bandwidth | null }
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
    return state.status === 'none' ? [{ type: 'endpoint.configured', data: command.data }] : [];
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
    settings: keepHostKey(command.definition.settings, state.settings),
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

function keepHostKey(next: EndpointSettings, now: EndpointSettings): EndpointSettings {
  if (!hasHostKey(next) || next.protocol !== now.protocol || next.host_key_sha256 !== null)
    return next;
  const isSameServer = next.host === now.host && next.port === now.port;
  return isSameServer ? { ...next, host_key_sha256: now.host_key_sha256 } : next;
}

function acceptHostKey(hostKey: string, state: Endpoint): EndpointEvent[] {
  const { settings } = state;
  if (!hasHostKey(settings)) {
    throw new DomainError('validation_failed', 'This endpoint has no host key');
  }
  return updated({ ...state, settings: { ...settings, host_key_sha256: hostKey } }, state);
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
});

function evolve(state: EndpointState, event: Event): EndpointState {
  if (!isEndpointEvent(event)) return state;
  if (state.status === 'none') {
    return event.type === 'endpoint.configured'
      ? { ...event.data, status: 'configured', paused: false, unreachable_since: null }
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
