import { lookup, Resolver } from 'node:dns/promises';

/** Of one try; the second and last one has twice as long. Together they leave something of the ten seconds of an attempt. */
const TRY_MS = 2_000;
const TRIES = 2;

/** What the DNS says of a name that it does not hold, or where there is none: the hosts file and search domains may know it. */
const NOT_THERE = ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'];

export interface HostAddress {
  address: string;
  family: number;
}

/** Every address of a host name. Rejects with a code, as `dns.lookup` does. */
export type ResolveHost = (hostname: string) => Promise<HostAddress[]>;

/**
 * Asks the DNS itself. The system's own look-up blocks one of a few threads that all of this process share: there two
 * names whose servers are silent would hold up every other one for ten seconds. It is asked only for what the DNS does
 * not hold. `servers`: address and port; by default those of the system.
 */
export function createHostResolver({ servers }: { servers?: string[] } = {}): ResolveHost {
  const dns = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (servers) dns.setServers(servers);

  return async (hostname) => {
    const [four, six] = await Promise.allSettled([dns.resolve4(hostname), dns.resolve6(hostname)]);
    const addresses = [...ofFamily(four, 4), ...ofFamily(six, 6)];
    if (addresses.length > 0) return addresses;
    for (const answer of [four, six]) if (answer.status === 'rejected' && !NOT_THERE.includes(answer.reason.code)) throw answer.reason;
    return lookup(hostname, { all: true });
  };
}

function ofFamily(answer: PromiseSettledResult<string[]>, family: number): HostAddress[] {
  return answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
}
