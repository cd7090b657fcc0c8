import { lookup, Resolver } from 'node:dns/promises';

/**
 * Limit of the first try. The second and last try has twice as long. Together they leave some of
 * the ten seconds of an attempt.
 */
const TRY_MS = 2_000;
const TRIES = 2;

/**
 * Errors of a DNS that does not know a name, or of a machine without a DNS. The hosts file and
 * search domains may know the name.
 */
const NOT_THERE = ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'];

export interface HostAddress {
  address: string;
  family: number;
}

/** Returns every address of a host name. Rejects with a code, as `dns.lookup` does. */
export type ResolveHost = (hostname: string) => Promise<HostAddress[]>;

/**
 * Creates a resolver that asks the DNS directly. The system's own look-up blocks one of a few
 * threads that the whole process shares: two names with silent servers would delay all other
 * look-ups for ten seconds. The resolver uses it only for names that the DNS does not know.
 * `servers`: address and port; those of the system by default.
 */
export function createHostResolver({ servers }: { servers?: string[] } = {}): ResolveHost {
  const dns = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (servers) dns.setServers(servers);

  return async (hostname) => {
    const [four, six] = await Promise.allSettled([dns.resolve4(hostname), dns.resolve6(hostname)]);
    const addresses = [...ofFamily(four, 4), ...ofFamily(six, 6)];
    if (addresses.length > 0) return addresses;
    for (const answer of [four, six])
      if (answer.status === 'rejected' && !NOT_THERE.includes(answer.reason.code))
        throw answer.reason;
    return lookup(hostname, { all: true });
  };
}

function ofFamily(answer: PromiseSettledResult<string[]>, family: number): HostAddress[] {
  return answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
}
