import { DomainError } from './errors.ts';
import { type Event, hasData } from './event.ts';
import type { TransferErrorCode } from './transfer-errors.ts';

export const PROTOCOLS = ['sftp', 'ftps', 's3', 'azure'] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Where a server listens unless it is told; FTPS by its kind of TLS. */
export const DEFAULT_PORTS = { sftp: 22, explicit: 21, implicit: 990 };

export interface SftpSettings {
  protocol: 'sftp';
  host: string;
  port: number;
  /** Absolute; `/` where everything may be reached. */
  base_path: string;
  username: string;
  /** As `ssh-keygen -l` prints it: `SHA256:` + base64. null until an administrator has accepted one. */
  host_key_sha256: string | null;
}

export interface FtpsSettings {
  protocol: 'ftps';
  host: string;
  port: number;
  base_path: string;
  username: string;
  tls: 'explicit' | 'implicit';
  ca_pem: string | null;
}

export interface S3Settings {
  protocol: 's3';
  bucket: string;
  prefix: string;
  region: string;
  endpoint_url: string | null;
  force_path_style: boolean;
  ca_pem: string | null;
  storage_class: string | null;
  sse: 'AES256' | 'aws:kms' | null;
  sse_kms_key_id: string | null;
}

export interface AzureSettings {
  protocol: 'azure';
  account: string;
  container: string;
  prefix: string;
  endpoint_url: string | null;
  ca_pem: string | null;
}

/** Where a server is and how it is spoken to; everything but secrets. */
export type EndpointSettings = SftpSettings | FtpsSettings | S3Settings | AzureSettings;

/** Ways to sign in: which kind of credentials an endpoint has, for people who look at it. */
export const SIGN_INS = ['password', 'private_key', 'access_key', 'account_key', 'sas_token'] as const;
export type SignIn = (typeof SIGN_INS)[number];

/** What is sealed in the vault, one for each way to sign in. */
export type EndpointCredentials =
  | { password: string }
  | { private_key: string; passphrase?: string | undefined }
  | { access_key_id: string; secret_access_key: string }
  | { account_key: string }
  | { sas_token: string };

export interface EndpointOptions {
  /** Transfers that use it at once, over all movers; and connections of each mover for each direction. */
  max_connections: number;
  /** Accounts that may use it; null for all. */
  accounts: string[] | null;
  /** Replace an existing destination file. */
  overwrite: boolean;
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
  protocol: Protocol;
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

export type EndpointState = { status: 'none' } | Endpoint | { status: 'removed'; endpoint_id: string; name: string };

export type EndpointCommand =
  | { type: 'configure'; data: EndpointConfigured }
  /** New settings, and new credentials where a record is named. Without a host key the accepted one stays while host and port do. */
  | { type: 'update'; definition: EndpointDefinition; credentials: SealedCredentials | null }
  | { type: 'accept_host_key'; host_key_sha256: string }
  | { type: 'pause' }
  | { type: 'resume' }
  | { type: 'remove' }
  | { type: 'lose_connectivity'; data: ConnectivityLost }
  | { type: 'restore_connectivity'; now: string };

export function initialState(): EndpointState {
  return { status: 'none' };
}

/** What follows from a command; empty where it was done already. Throws `not_found` for an endpoint that is not there. */
export function decide(command: EndpointCommand, state: EndpointState): EndpointEvent[] {
  if (command.type === 'configure') {
    return state.status === 'none' ? [{ type: 'endpoint.configured', data: command.data }] : [];
  }
  if (state.status === 'removed' && command.type === 'remove') return [];
  if (state.status !== 'configured') throw new DomainError('not_found', 'There is no such endpoint');
  switch (command.type) {
    case 'update':
      return update(command, state);
    case 'accept_host_key':
      return acceptHostKey(command.host_key_sha256, state);
    case 'pause':
      return state.paused ? [] : [{ type: 'endpoint.paused', data: {} }];
    case 'resume':
      return state.paused ? [{ type: 'endpoint.resumed', data: {} }] : [];
    case 'remove':
      return [{ type: 'endpoint.removed', data: {} }];
    case 'lose_connectivity':
      return state.unreachable_since === null ? [{ type: 'endpoint.connectivity_lost', data: command.data }] : [];
    case 'restore_connectivity':
      return state.unreachable_since === null ? [] : [{ type: 'endpoint.connectivity_restored', data: { restored_at: command.now } }];
  }
}

function update(command: Extract<EndpointCommand, { type: 'update' }>, state: Endpoint): EndpointEvent[] {
  const definition = { ...command.definition, settings: keepHostKey(command.definition.settings, state.settings) };
  const events: EndpointEvent[] = [];
  if (JSON.stringify(definition) !== JSON.stringify(definitionOf(state))) events.push({ type: 'endpoint.updated', data: definition });
  if (command.credentials) events.push({ type: 'endpoint.credentials_replaced', data: command.credentials });
  return events;
}

function definitionOf({ settings, max_connections, accounts, overwrite }: EndpointDefinition): EndpointDefinition {
  return { max_connections, accounts, overwrite, settings };
}

function keepHostKey(next: EndpointSettings, now: EndpointSettings): EndpointSettings {
  if (next.protocol !== 'sftp' || now.protocol !== 'sftp' || next.host_key_sha256 !== null) return next;
  const sameServer = next.host === now.host && next.port === now.port;
  return sameServer ? { ...next, host_key_sha256: now.host_key_sha256 } : next;
}

function acceptHostKey(hostKey: string, state: Endpoint): EndpointEvent[] {
  const { settings } = state;
  if (settings.protocol !== 'sftp') throw new DomainError('validation_failed', 'Only an SFTP endpoint has a host key');
  if (settings.host_key_sha256 === hostKey) return [];
  return [{ type: 'endpoint.updated', data: definitionOf({ ...state, settings: { ...settings, host_key_sha256: hostKey } }) }];
}

/** The state after one more event. Never throws: an event that can't follow leaves the very state that was given. */
export function evolve(state: EndpointState, event: Event): EndpointState {
  if (!hasData(event)) return state;
  const known = event as EndpointEvent;
  if (state.status === 'none') {
    return known.type === 'endpoint.configured' ? { ...known.data, status: 'configured', paused: false, unreachable_since: null } : state;
  }
  if (state.status === 'removed') return state;
  switch (known.type) {
    case 'endpoint.updated':
    case 'endpoint.credentials_replaced':
      return { ...state, ...known.data };
    case 'endpoint.paused':
      return { ...state, paused: true };
    case 'endpoint.resumed':
      return { ...state, paused: false };
    case 'endpoint.removed':
      return { status: 'removed', endpoint_id: state.endpoint_id, name: state.name };
    case 'endpoint.connectivity_lost':
      return { ...state, unreachable_since: known.data.detected_at };
    case 'endpoint.connectivity_restored':
      return { ...state, unreachable_since: null };
    default:
      return state;
  }
}

/** Host name or address that is dialled. */
export function hostOf(settings: EndpointSettings): string {
  if ('host' in settings) return settings.host;
  if (settings.endpoint_url !== null) return new URL(settings.endpoint_url).hostname;
  return settings.protocol === 's3'
    ? `${settings.bucket}.s3.${settings.region}.amazonaws.com`
    : `${settings.account}.blob.core.windows.net`;
}

/** Endpoints belong to the installation: their `accounts` say who may use them. */
export function accountOf(): null {
  return null;
}
