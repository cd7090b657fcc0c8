import type { Socket } from 'node:net';
import { type Via, type ViaCredentials, viaOf } from '../../../domain/protocols/via.ts';
import { connectThroughProxy } from '../via/proxy.ts';
import type { ViaTarget } from '../via/target.ts';

/** Connects to a server through a proxy. Throws FileError. */
export type Tunnel = (target: ViaTarget, signal?: AbortSignal) => Promise<Socket>;

/** Returns how an endpoint reaches its server; null if it dials it. */
export function tunnelOf(
  settings: { via?: Via | null },
  { via: credentials = {} }: { via?: ViaCredentials },
  { connectMs: timeoutMs }: { connectMs: number },
): Tunnel | null {
  const via = viaOf(settings);
  if (!via) return null;
  return (target, signal) => connectThroughProxy({ via, credentials, target, timeoutMs, signal });
}

/** Connects to the host of a URL through the proxy, if there is one, and closes the connection. */
export async function reach(tunnel: Tunnel | null, url: URL, signal: AbortSignal): Promise<void> {
  const socket = await tunnel?.(targetOf(url), signal);
  socket?.destroy();
}

export function targetOf(url: URL): ViaTarget {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return { host, port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)) };
}
