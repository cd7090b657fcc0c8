import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { createHttp, type Http } from '../../../../src/adapters/files/http/http.ts';
import { TIMEOUTS } from '../../../../src/adapters/files/http/timeouts.ts';

let server: Server;
let http: Http;
afterEach(() => {
  http.close();
  server.close();
  server.closeAllConnections();
});

test('a request may wait longer for its answer than the server keeps idle connections', async () => {
  server = createServer(async ({ url }, response) => {
    if (url === '/slow') await sleep(1_500);
    // Node lets an idle connection go a second before the server would.
    response.writeHead(200, { 'keep-alive': 'timeout=2' }).end(url);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  http = createHttp({ secure: false, caPem: null, maxConnections: 1, timeouts: TIMEOUTS });

  for (const path of ['/quick', '/slow']) {
    const { response } = await http.handle({ method: 'PUT', hostname: '127.0.0.1', port, path, headers: {}, body: 'content' });
    expect(await text(response.body)).toBe(path);
  }
});
