import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { shortageOf } from '../own-shortage.ts';

export interface HostAddress {
  address: string;
  family: number;
}

/** What this machine knows of names, besides the DNS. */
export interface LocalNames {
  /** Addresses of the hosts file, by lowercase name. */
  hosts: ReadonlyMap<string, HostAddress[]>;
  /** Domains to append to a name that the DNS does not know. */
  searchDomains: readonly string[];
}

/** The files, by their usual paths. A missing one is the same as an empty one. */
export interface NameFiles {
  hosts: string;
  resolvConf: string;
}

export const SYSTEM_FILES: NameFiles = { hosts: '/etc/hosts', resolvConf: '/etc/resolv.conf' };

/** Throws only if this process has no place for an open file. */
export async function readLocalNames({ hosts, resolvConf }: NameFiles): Promise<LocalNames> {
  const [hostLines, settings] = await Promise.all([wordsOf(hosts), wordsOf(resolvConf)]);
  return { hosts: hostsIn(hostLines), searchDomains: searchDomainsIn(settings) };
}

/** Returns the words of each line, without comments. */
async function wordsOf(path: string): Promise<string[][]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (shortageOf(error) !== null) throw error;
    return '';
  });
  return text.split('\n').map((line) =>
    line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/),
  );
}

function hostsIn(lines: string[][]): Map<string, HostAddress[]> {
  const hosts = new Map<string, HostAddress[]>();
  for (const [address = '', ...names] of lines) {
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of names.map((name) => name.toLowerCase()))
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }]);
  }
  return hosts;
}

/** The last line of `search` or `domain` counts (resolv.conf(5)). */
function searchDomainsIn(lines: string[][]): string[] {
  const last = lines.findLast(([keyword]) => keyword === 'search' || keyword === 'domain');
  const domains = (last ?? []).slice(1).map((domain) => domain.replace(/\.$/, ''));
  return domains.filter((domain) => domain !== '');
}
