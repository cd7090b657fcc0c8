import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface MemoryServer {
  port: number;
  files: Map<string, Buffer>;
  stop(): Promise<void>;
}

/** A server that keeps files in memory. GET with a trailing slash lists the names below. */
export async function startMemoryServer(authorization: string): Promise<MemoryServer> {
  const files = new Map<string, Buffer>();
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(request.url ?? '/');
    const content = files.get(path);
    if (request.headers.authorization !== authorization) response.writeHead(401).end();
    else if (request.method === 'OPTIONS') response.writeHead(204).end();
    else if (request.method === 'PUT') {
      files.set(path, await buffer(request));
      response.writeHead(204).end();
    } else if (path.endsWith('/')) {
      const names = [...files.keys()].filter((name) => name.startsWith(path));
      response.end(JSON.stringify(names.map((name) => name.slice(path.length))));
    } else if (!content) response.writeHead(404).end();
    else {
      if (request.method === 'DELETE') files.delete(path);
      response.end(content);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    files,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
