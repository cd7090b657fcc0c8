import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Azure answers there to every virtual machine, in the midst of public addresses. */
const AZURE_PLATFORM = '168.63.129.16';
/** All of IPv6 that is given out to the public. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/** Ranges of IPv6 that stand for an IPv4 address, and where in their bytes it lies. */
const EMBEDDING: { range: [ipaddr.IPv6, number]; at: number; inverted?: boolean }[] = [
  { range: ipaddr.IPv6.parseCIDR('::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('::ffff:0:0:0/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 },
  { range: ipaddr.IPv6.parseCIDR('2001::/32'), at: 12, inverted: true },
];

/**
 * True where a webhook may go: a public address, or one within an allowed range. A range that leads to
 * IPv4 by translation or a tunnel has to be allowed itself, and what it leads to as well. `address` is a
 * literal as the system and the WHATWG URL write it, without brackets; anything else is not allowed.
 */
export function isAllowedAddress(address: string, allowedCidrs: readonly string[]): boolean {
  const parsed = parse(address);
  return parsed !== null && isAllowed(parsed, allowedCidrs);
}

/** True for an address within one of the ranges: the only ones that may be spoken to without TLS. */
export function isInRanges(address: string, cidrs: readonly string[]): boolean {
  const parsed = parse(address);
  return parsed !== null && isWithin(parsed, cidrs);
}

/** An IPv4 address that is written as IPv6 is that IPv4 address. */
function parse(address: string): Address | null {
  return ipaddr.isValid(address) ? ipaddr.process(address) : null;
}

function isAllowed(address: Address, cidrs: readonly string[]): boolean {
  const embedded = embeddedIn(address);
  if (embedded !== null) return isWithin(address, cidrs) && isAllowed(embedded, cidrs);
  return isPublic(address) || isWithin(address, cidrs);
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  return address instanceof ipaddr.IPv4 ? address.toString() !== AZURE_PLATFORM : address.match(GLOBAL_UNICAST);
}

function isWithin(address: Address, cidrs: readonly string[]): boolean {
  return cidrs.some((cidr) => {
    const [network, bits] = ipaddr.parseCIDR(cidr);
    return network.kind() === address.kind() && address.match(network, bits);
  });
}

function embeddedIn(address: Address): ipaddr.IPv4 | null {
  if (address instanceof ipaddr.IPv4) return null;
  // The two that stand for no address at all and for this machine are no IPv4.
  if (address.range() === 'loopback' || address.range() === 'unspecified') return null;
  const found = EMBEDDING.find(({ range }) => address.match(range));
  if (!found) return null;
  const bytes = address.toByteArray().slice(found.at, found.at + 4);
  return new ipaddr.IPv4(found.inverted ? bytes.map((byte) => byte ^ 0xff) : bytes);
}
