import { isIPv6 } from 'node:net';

/** The server behind a hop. The hop resolves its name. */
export interface ViaTarget {
  host: string;
  port: number;
}

export function authorityOf({ host, port }: ViaTarget): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}
