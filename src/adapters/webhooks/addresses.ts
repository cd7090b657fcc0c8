import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Azure answers at this public address to every virtual machine. */
const AZURE_PLATFORM = '168.63.129.16';
/** The range of IPv6 that contains all public addresses. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/** Ranges of IPv6 that embed an IPv4 address, and the byte where it starts. */
const EMBEDDING: { range: [ipaddr.IPv6, number]; at: number; inverted?: boolean }[] = [
  { range: ipaddr.IPv6.parseCIDR('::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('::ffff:0:0:0/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 },
  { range: ipaddr.IPv6.parseCIDR('2001::/32'), at: 12, inverted: true },
];

/**
 * Returns true if a webhook may go to the address: it is public, or within an allowed range. For an
 * IPv6 address that embeds an IPv4 address (translation or a tunnel), both must be allowed: the
 * IPv6 address by a range, the IPv4 address as usual. `address` is a literal without brackets, as
 * the system and the WHATWG URL write it. Returns false for anything else.
 */
export function isAllowedAddress(address: string, allowedCidrs: readonly string[]): boolean {
  const parsed = parse(address);
  return parsed !== null && isAllowed(parsed, allowedCidrs);
}

/** Returns true for an address within one of the ranges. Only those may be used without TLS. */
export function isInRanges(address: string, cidrs: readonly string[]): boolean {
  const parsed = parse(address);
  return parsed !== null && isWithin(parsed, cidrs);
}

/** Parses an address. An IPv4 address in the notation of IPv6 becomes the IPv4 address. */
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
  return address instanceof ipaddr.IPv4
    ? address.toString() !== AZURE_PLATFORM
    : address.match(GLOBAL_UNICAST);
}

function isWithin(address: Address, cidrs: readonly string[]): boolean {
  return cidrs.some((cidr) => {
    const [network, bits] = ipaddr.parseCIDR(cidr);
    return network.kind() === address.kind() && address.match(network, bits);
  });
}

function embeddedIn(address: Address): ipaddr.IPv4 | null {
  if (address instanceof ipaddr.IPv4) return null;
  // `::` and `::1` look like embedded IPv4 addresses, but are none.
  if (address.range() === 'loopback' || address.range() === 'unspecified') return null;
  const found = EMBEDDING.find(({ range }) => address.match(range));
  if (!found) return null;
  const bytes = address.toByteArray().slice(found.at, found.at + 4);
  return new ipaddr.IPv4(found.inverted ? bytes.map((byte) => byte ^ 0xff) : bytes);
}
