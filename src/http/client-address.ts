import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/** What requests without a valid key are counted by: the client's address, as a trusted proxy gives it. */
export function clientAddress(request: FastifyRequest): string {
  // What a proxy forwards may be anything.
  return networkOf(isIP(request.ip) ? request.ip : request.socket.remoteAddress);
}

/** What an address is counted as: itself, or of an IPv6 address the network (/64), for a client owns all of that. */
export function networkOf(address = ''): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped) return mapped;
  return isIP(address) === 6 ? firstHalf(address) : address;
}

function firstHalf(address: string): string {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = head.split(':').filter(Boolean);
  const rest = tail?.split(':').filter(Boolean) ?? [];
  const all = tail === undefined ? groups : [...groups, ...Array(Math.max(0, 8 - groups.length - rest.length)).fill('0'), ...rest];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
