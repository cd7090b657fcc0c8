import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * The address that requests without a valid key are counted by: the client's, as a trusted proxy gives
 * it. Of an IPv6 address its network (/64), for a client owns all of that.
 */
export function clientAddress(request: FastifyRequest): string {
  // What a proxy forwards may be anything.
  const address = isIP(request.ip) ? request.ip : (request.socket.remoteAddress ?? '');
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped) return mapped;
  return isIP(address) === 6 ? network(address) : address;
}

function network(address: string): string {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = head.split(':').filter(Boolean);
  const rest = tail?.split(':').filter(Boolean) ?? [];
  const all = tail === undefined ? groups : [...groups, ...Array(Math.max(0, 8 - groups.length - rest.length)).fill('0'), ...rest];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
