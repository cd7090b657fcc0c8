import { randomBytes } from 'node:crypto';
import { type Nodes, nodesOf } from '../support/event-store/nodes.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import type { ChaosOptions } from './options.ts';
import { PROCESS_NAMES, type ProcessName } from './plan.ts';
import { type ChaosPostgres, startChaosPostgres } from './postgres.ts';

type Proxies = Record<ProcessName, TcpProxy>;

/**
 * Postgres and the event store, if the log is there. Each process reaches both through its own
 * proxies.
 */
export interface Stores {
  postgres: ChaosPostgres;
  postgresProxies: Proxies;
  /** Null with the Postgres log, and if no proxy can reach the event store. */
  eventStoreProxies: Proxies | null;
  eventStore: { url: string; nodes: Nodes } | null;
  streamPrefix: string;
  /** The settings of one process that name the stores. */
  settingsOf(name: ProcessName): Record<string, string>;
  /** The same settings without proxies. */
  directSettings: Record<string, string>;
  close(): Promise<void>;
}

export async function openStores({ engine }: ChaosOptions): Promise<Stores> {
  const { EVENTSTORE_URL = '' } = process.env;
  const postgres = await startChaosPostgres();
  const postgresProxies = await proxiesTo(postgres);
  const eventStore =
    engine === 'postgres' ? null : { url: EVENTSTORE_URL, nodes: nodesOf(EVENTSTORE_URL) };
  const node = eventStore && singleNode(eventStore.url);
  const eventStoreProxies = node
    ? await proxiesTo({ host: node.hostname, port: Number(node.port || 2113) })
    : null;
  const streamPrefix = eventStore ? `chaos${randomBytes(6).toString('hex')}_` : 'waybill_';
  const settings = { WAYBILL_STREAM_PREFIX: streamPrefix };

  return {
    postgres,
    postgresProxies,
    eventStoreProxies,
    eventStore,
    streamPrefix,
    directSettings: {
      ...settings,
      DATABASE_URL: postgres.url,
      ...(eventStore ? { EVENTSTORE_URL: eventStore.url } : {}),
    },
    settingsOf(name) {
      const database = through(postgres.url, postgresProxies[name]);
      if (!eventStore) return { ...settings, DATABASE_URL: database };
      const log = eventStoreProxies
        ? through(eventStore.url, eventStoreProxies[name])
        : eventStore.url;
      return { ...settings, DATABASE_URL: database, EVENTSTORE_URL: log };
    },
    async close() {
      const proxies = [
        ...Object.values(postgresProxies),
        ...Object.values(eventStoreProxies ?? {}),
      ];
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await postgres.close();
    },
  };
}

/**
 * True for a node that is named by its address alone. A cluster sends its clients its own
 * addresses.
 */
function singleNode(url: string): URL | null {
  // The hosts of a cluster are separated by commas, which a URL cannot have before its port.
  const parsed = URL.parse(url);
  if (parsed === null) return null;
  const insecure = parsed.searchParams.get('tls') === 'false';
  return parsed.protocol === 'esdb:' && insecure ? parsed : null;
}

async function proxiesTo(target: { host: string; port: number }): Promise<Proxies> {
  const proxies = await Promise.all(
    PROCESS_NAMES.map(async (name) => [name, await startTcpProxy(target)] as const),
  );
  return Object.fromEntries(proxies) as Proxies;
}

function through(url: string, proxy: TcpProxy): string {
  const changed = new URL(url);
  changed.hostname = proxy.host;
  changed.port = String(proxy.port);
  return changed.href;
}
