import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Facts, SharedName } from './shared-servers.ts';

interface SharedServer {
  /** Returns the facts for one more user. */
  facts(): Facts;
  stop(): Promise<void>;
}

const STARTERS: Record<SharedName, () => Promise<SharedServer>> = {
  azurite: async () => (await import('../file-servers/azure/azurite.ts')).startAzuriteForMany(),
  ceph: async () => (await import('../file-servers/s3/radosgw.ts')).startRadosgwForMany(),
};

/**
 * Starts each server at most once in a run of tests, when the first test file asks for it. Runs in
 * the process of the run, which outlives all test files. Test files ask at the returned URL.
 */
export async function hostSharedServers(): Promise<{ url: string; close(): Promise<void> }> {
  const servers = new Map<SharedName, Promise<SharedServer>>();
  function find(name: SharedName): Promise<SharedServer> {
    const server = servers.get(name) ?? STARTERS[name]();
    servers.set(name, server);
    return server;
  }
  const host = createServer((request, response) => {
    find(request.url?.slice(1) as SharedName).then(
      (server) => response.end(JSON.stringify(server.facts())),
      (error: Error) => response.writeHead(500).end(error.stack),
    );
  });
  await once(host.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(host.address() as AddressInfo).port}`,
    async close() {
      host.closeAllConnections();
      host.close();
      for (const server of servers.values())
        await server.then(
          ({ stop }) => stop(),
          () => undefined,
        );
    },
  };
}
