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
 * When a query is repeated, in milliseconds after the one before. It may be lost, or its server
 * down, so the next one goes to the next server. The earlier ones stay open: a DNS may just be slow.
 */
const REPEATED_AFTER_MS = [2_000, 4_000];
const TRIES = REPEATED_AFTER_MS.length + 1;

/** How long IPv6 addresses are waited for once a name has others: some name servers drop queries. */
const IPV6_WITHIN_MS = 250;

/** Errors of a DNS that does not know a name, or of a name that no DNS can know. */
const NOT_THERE = ['ENOTFOUND', 'ENODATA', 'EBADNAME'];

/** Answers of name servers that refuse every name without a dot. */
const REFUSALS = ['ESERVFAIL', 'EREFUSED'];

/** Returns every address of a host name. Rejects with a code, as `dns.lookup` does. */
export type ResolveHost = (hostname: string) => Promise<HostAddress[]>;

/** How long the names in the files of the system count, in milliseconds. */
const SETTINGS_KEPT_MS = 5_000;

export interface ResolverOptions {
  /** Returns addresses and ports. Those of the system by default. */
  servers?: () => string[];
  files?: NameFiles;
  settingsKeptMs?: number;
  /** Limit for all queries of one name, in milliseconds. */
  withinMs: number;
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
  withinMs,
}: ResolverOptions): ResolveHost {
  let local: { at: number; names: Promise<LocalNames> } | null = null;

  function localNames() {
    if (local === null || performance.now() - local.at > settingsKeptMs)
      local = { at: performance.now(), names: readLocalNames(files) };
    return local.names;
  }

  return async (hostname) => {
    const until = performance.now() + withinMs;
    const { hosts, searchDomains } = await localNames().catch((error: unknown) => {
      local = null;
      throw error;
    });
    const found = hosts.get(hostname.replace(/\.$/, ''));
    if (found) return found;
    const domains = hostname.endsWith('.') ? [] : searchDomains;
    const all = [hostname, ...domains.map((domain) => `${hostname}.${domain}`)];
    return addressesOf(all, { servers, until });
  };
}

interface Dns {
  /** Undefined for those of the system. */
  servers: (() => string[]) | undefined;
  /** When the last query ends, as `performance.now` counts. */
  until: number;
}

/** Returns the addresses of the first of these names that the DNS knows. */
async function addressesOf(names: string[], dns: Dns): Promise<HostAddress[]> {
  let unknown: unknown;
  for (const name of names) {
    const [four, six] = await bothFamilies(name, dns);
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

async function bothFamilies(name: string, dns: Dns) {
  const resolvers: Resolver[] = [];
  const resolverOf = (attempt: number) => {
    resolvers[attempt] ??= createResolver(attempt, dns);
    return resolvers[attempt];
  };
  try {
    const six = firstAnswer((attempt) => resolverOf(attempt).resolve6(name), dns.until);
    six.catch(() => undefined);
    const [four] = await Promise.allSettled([
      firstAnswer((attempt) => resolverOf(attempt).resolve4(name), dns.until),
    ]);
    const none = sleep<string[]>(IPV6_WITHIN_MS, [], { ref: false });
    const inTime = four.status === 'fulfilled' ? Promise.race([six, none]) : six;
    return [four, ...(await Promise.allSettled([inTime]))] as const;
  } finally {
    for (const resolver of resolvers) resolver.cancel();
  }
}

/**
 * Creates a resolver for one try of one name. One for all would wait less than its limit for servers
 * that were fast before, and it ignores the answer to a query that it has repeated.
 */
function createResolver(attempt: number, { servers, until }: Dns): Resolver {
  const timeout = Math.max(1, Math.ceil(until - performance.now()));
  const resolver = new Resolver({ timeout, maxTimeout: timeout, tries: 1 });
  const all = servers?.() ?? resolver.getServers();
  const first = attempt % all.length;
  if (servers || first > 0) resolver.setServers([...all.slice(first), ...all.slice(0, first)]);
  return resolver;
}

/**
 * Asks until one try has an answer, also the answer that the name is unknown. Rejects with the first
 * failure when every try has failed or the time is over.
 */
function firstAnswer(
  ask: (attempt: number) => Promise<string[]>,
  until: number,
): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  let failure: NodeJS.ErrnoException | null = null;
  let asked = 0;
  let failed = 0;
  let repeat: NodeJS.Timeout | undefined;
  const end = setTimeout(
    () => reject(failure ?? Object.assign(new Error('no answer of the DNS'), { code: 'ETIMEOUT' })),
    Math.max(0, until - performance.now()),
  );

  function next(): void {
    clearTimeout(repeat);
    if (asked === TRIES) return;
    const after = REPEATED_AFTER_MS[asked];
    if (after !== undefined) repeat = setTimeout(next, after);
    ask(asked++).then(resolve, (error: NodeJS.ErrnoException) => {
      failed++;
      failure ??= error;
      if (NOT_THERE.includes(error.code ?? '')) reject(error);
      else if (failed === TRIES) reject(failure);
      else if (failed === asked) next();
    });
  }

  next();
  return promise.finally(() => {
    asked = TRIES;
    clearTimeout(repeat);
    clearTimeout(end);
  });
}

/** A closed port of a name server must not look like a closed port of the receiver. */
function lookUpFailure(error: NodeJS.ErrnoException): NodeJS.ErrnoException {
  return error.code === 'ECONNREFUSED' ? Object.assign(error, { code: 'EAI_AGAIN' }) : error;
}

function ofFamily(answer: PromiseSettledResult<string[]>, family: number): HostAddress[] {
  return answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
}
