import type { HostKey } from './host-keys.ts';

export const VIA_TYPES = ['ssh', 'http', 'socks5'] as const;
export type ViaType = (typeof VIA_TYPES)[number];

/** A host on the way to an endpoint's server: an SSH jump host or a proxy. Without its secrets. */
export interface Via {
  type: ViaType;
  host: string;
  port: number;
  /** Null for a proxy that asks for none. */
  username: string | null;
  /** The accepted host keys of a jump host. Null for a proxy. */
  host_keys: HostKey[] | null;
}

/** The secrets of a jump host or a proxy. The vault holds them with the endpoint's credentials. */
export interface ViaCredentials {
  password?: string | undefined;
  private_key?: string | undefined;
  passphrase?: string | undefined;
}

export const VIA_SECRETS = ['password', 'private_key', 'passphrase'] as const;

/**
 * Returns the hop of an endpoint; null if its server is dialled. Most events have no such field.
 */
export function viaOf(settings: { via?: Via | null }): Via | null {
  return settings.via ?? null;
}

const NAMES: Record<ViaType, string> = {
  ssh: 'jump host',
  http: 'HTTP proxy',
  socks5: 'SOCKS5 proxy',
};

/** Returns the kind and address of a hop, for messages. */
export function nameOfVia({ type, host, port }: Via): string {
  return `${NAMES[type]} ${host}:${port}`;
}
