import { isIP } from 'node:net';
import { isAllowedAddress, isInRanges } from './addresses.ts';

/**
 * What speaks against delivering to a URL, as far as it can be told without a name server: an address is
 * judged in whatever spelling, a name when it is dialled. null where nothing does; else words that follow "url".
 */
export function objectionTo(url: string, allowedCidrs: readonly string[]): string | null {
  const { protocol, hostname } = new URL(url);
  const address = literalOf(hostname);
  const plainIsAllowed = address === null ? allowedCidrs.length > 0 : isInRanges(address, allowedCidrs);
  if (protocol === 'http:' && !plainIsAllowed) return 'must be an https URL: plain http goes only where the operator allows it';
  if (address !== null && !isAllowedAddress(address, allowedCidrs)) {
    return 'must not lead to a private or reserved address, unless the operator allows it (WAYBILL_WEBHOOK_ALLOW_CIDRS)';
  }
  return null;
}

/** The address that a host is: URL has written the decimal, hexadecimal and short forms out. */
function literalOf(hostname: string): string | null {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (host === 'localhost' || host.endsWith('.localhost')) return '127.0.0.1';
  return isIP(host) === 0 ? null : host;
}
