import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Returns an unused loopback port, for servers that cannot choose one themselves. Another process
 * may take it first: retry then.
 */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
