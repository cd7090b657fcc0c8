import { isIP } from 'node:net';
import { isAllowedAddress, isInRanges } from './addresses.ts';

/**
 * Returns why a URL may not receive webhooks, as text that follows "url"; null if it may. Asks no
 * name server: an address is checked here in any notation, a name when it is dialled.
 */
export function objectionToWebhookUrl(url: string, allowedCidrs: readonly string[]): string | null {
  const { protocol, hostname } = new URL(url);
  const address = literalOf(hostname);
  const plainIsAllowed =
    address === null ? allowedCidrs.length > 0 : isInRanges(address, allowedCidrs);
  if (protocol === 'http:' && !plainIsAllowed)
    return (
      'must be an https URL: plain http may lead only to an address that the operator allows ' +
      '(WAYBILL_WEBHOOK_ALLOW_CIDRS)'
    );
  if (address !== null && !isAllowedAddress(address, allowedCidrs)) {
    return (
      'must not lead to a private or reserved address, ' +
      'unless the operator allows it (WAYBILL_WEBHOOK_ALLOW_CIDRS)'
    );
  }
  return null;
}

/**
 * Returns the IP address in a host; null for a name. URL has already expanded decimal, hexadecimal
 * and short forms.
 */
function literalOf(hostname: string): string | null {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (host === 'localhost' || host.endsWith('.localhost')) return '127.0.0.1';
  return isIP(host) === 0 ? null : host;
}
