import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** A loopback port that nobody listens on, for servers that can't be told to choose one. Another may take it first: try again then. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
