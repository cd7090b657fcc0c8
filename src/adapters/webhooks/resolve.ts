import { Resolver } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type HostAddress,
  type LocalNames,
  type NameFiles,
  readLocalNames,
  SYSTEM_FILES,
} from './local-names.ts';

/**
 * Limit of the first try. The second and last try has twice as long. Together they leave some of
 * the ten seconds of an attempt.
 */
const TRY_MS = 2_000;
const TRIES = 2;

/** How long IPv6 addresses are waited for once a name has others: some name servers drop queries. */
const IPV6_WITHIN_MS = 250;

/** Errors of a DNS that does not know a name, or of a name that no DNS can know. */
const NOT_THERE = ['ENOTFOUND', 'ENODATA', 'EBADNAME'];

/** Answers of name servers that refuse every name without a dot. */
const REFUSALS = ['ESERVFAIL', 'EREFUSED'];

/** Returns every address of a host name. Rejects with a code, as `dns.lookup` does. */
export type ResolveHost = (hostname: string) => Promise<HostAddress[]>;

/**
 * How long the settings of the system count, in milliseconds. A resolver reads its servers once,
 * when it is created.
 */
const SETTINGS_KEPT_MS = 5_000;

interface ResolverOptions {
  /** Returns addresses and ports. Those of the system by default. */
  servers?: () => string[];
  files?: NameFiles;
  settingsKeptMs?: number;
}

/**
 * Creates a resolver that asks the hosts file, then the DNS, then the DNS with each search domain.
 * It never uses the system's own look-up, which blocks one of a few threads that the whole process
 * shares: a few names with silent servers would delay the look-ups of all endpoints. It notices
 * other servers and names of the system within five seconds.
 */
export function createHostResolver({
  servers,
  files = SYSTEM_FILES,
  settingsKeptMs = SETTINGS_KEPT_MS,
}: ResolverOptions = {}): ResolveHost {
  let settings: { at: number; dns: Resolver; names: Promise<LocalNames> } | null = null;

  function currentSettings() {
    if (settings === null || performance.now() - settings.at > settingsKeptMs) {
      const dns = new Resolver({ timeout: TRY_MS, tries: TRIES });
      if (servers) dns.setServers(servers());
      settings = { at: performance.now(), dns, names: readLocalNames(files) };
    }
    return settings;
  }

  return async (hostname) => {
    const { dns, names } = currentSettings();
    const { hosts, searchDomains } = await names.catch((error: unknown) => {
      settings = null;
      throw error;
    });
    const found = hosts.get(hostname.replace(/\.$/, ''));
    if (found) return found;
    const domains = hostname.endsWith('.') ? [] : searchDomains;
    return addressesOf(dns, [hostname, ...domains.map((domain) => `${hostname}.${domain}`)]);
  };
}

/** Returns the addresses of the first of these names that the DNS knows. */
async function addressesOf(dns: Resolver, names: string[]): Promise<HostAddress[]> {
  let unknown: unknown;
  for (const name of names) {
    const [four, six] = await bothFamilies(dns, name);
    const addresses = [...ofFamily(four, 4), ...ofFamily(six, 6)];
    if (addresses.length > 0) return addresses;
    const errors = [four, six].flatMap((answer) => ('reason' in answer ? [answer.reason] : []));
    const failure = errors.find(({ code }) => !NOT_THERE.includes(code));
    const mayBeInDomain = !name.includes('.') && REFUSALS.includes(failure?.code);
    if (failure && !mayBeInDomain) throw lookUpFailure(failure);
    unknown ??= failure ?? errors[0];
  }
  throw unknown;
}

async function bothFamilies(dns: Resolver, name: string) {
  const six = dns.resolve6(name);
  six.catch(() => undefined);
  const [four] = await Promise.allSettled([dns.resolve4(name)]);
  const none = sleep<string[]>(IPV6_WITHIN_MS, [], { ref: false });
  const inTime = four.status === 'fulfilled' ? Promise.race([six, none]) : six;
  return [four, ...(await Promise.allSettled([inTime]))] as const;
}

/** A closed port of a name server must not look like a closed port of the receiver. */
function lookUpFailure(error: NodeJS.ErrnoException): NodeJS.ErrnoException {
  return error.code === 'ECONNREFUSED' ? Object.assign(error, { code: 'EAI_AGAIN' }) : error;
}

function ofFamily(answer: PromiseSettledResult<string[]>, family: number): HostAddress[] {
  return answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
}
