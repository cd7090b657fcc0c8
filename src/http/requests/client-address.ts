import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/** Returns the address of the client, as a trusted proxy forwards it. */
export function clientAddress(request: FastifyRequest): string {
  // A forwarded address can be any text.
  const forwarded = withoutPort(request.ip);
  const address = (isIP(forwarded) ? forwarded : request.socket.remoteAddress) ?? '';
  return withoutMapping(address);
}

/** Returns what requests without a valid key count by. */
export function clientNetwork(request: FastifyRequest): string {
  return networkOf(clientAddress(request));
}

/**
 * Returns what an address counts as: IPv4 as itself, IPv6 as its /64 network, because a client owns
 * the whole network.
 */
export function networkOf(address = ''): string {
  const plain = withoutMapping(address);
  return isIP(plain) === 6 ? firstHalf(plain) : plain;
}

/** Returns an address without the port that some proxies add, as in `[2001:db8::1]:4711`. */
function withoutPort(address: string): string {
  const [, ofBrackets, ofIPv4] = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/.exec(address) ?? [];
  return ofBrackets ?? ofIPv4 ?? address;
}

/** Returns an IPv4 address that is written as IPv6 in its own form. */
function withoutMapping(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
}

function firstHalf(address: string): string {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = head.split(':').filter(Boolean);
  const rest = tail?.split(':').filter(Boolean) ?? [];
  const all =
    tail === undefined
      ? groups
      : [...groups, ...Array(Math.max(0, 8 - groups.length - rest.length)).fill('0'), ...rest];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
