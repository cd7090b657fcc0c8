import { startTcpProxy, type TcpProxy } from '../network/tcp-proxy.ts';
import { createTestDatabase, type TestDatabase } from './test-database.ts';

/** A separate database that is reached through a proxy. `sql` connects directly. */
export interface ProxiedDatabase extends TestDatabase {
  proxy: TcpProxy;
  /** Resets every connection and rejects new ones. */
  takeAway(): Promise<void>;
  giveBack(): Promise<void>;
}

export async function createProxiedDatabase(): Promise<ProxiedDatabase> {
  const database = await createTestDatabase();
  const url = new URL(database.url);
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  return {
    ...database,
    url: url.href,
    proxy,
    async takeAway() {
      await proxy.refuse(true);
      proxy.cut();
    },
    giveBack: () => proxy.refuse(false),
    async drop() {
      await proxy.close();
      await database.drop();
    },
  };
}
