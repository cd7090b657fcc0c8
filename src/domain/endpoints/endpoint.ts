import type { Event } from '../events/event.ts';
import { type AnnouncedHostKey, hostKeysOf } from '../protocols/host-keys.ts';
import {
  type EndpointSettings,
  type ProtocolName,
  protocolOf,
  type SignIn,
} from '../protocols/index.ts';
import type { TransferErrorCode } from '../transfers/errors.ts';
import type { Bandwidth } from './bandwidth.ts';

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
