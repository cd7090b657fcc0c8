import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { createHttp, type Http } from '../../../../src/adapters/files/http/http.ts';
import { type HttpTimeouts, TIMEOUTS } from '../../../../src/adapters/files/http/timeouts.ts';

let server: Server | undefined;
let http: Http | undefined;
afterEach(() => {
  http?.close();
  server?.close();
  server?.closeAllConnections();
});

/** Sends a request to a server that answers like this; all go over one connection, where it is kept. */
async function connected(answer: RequestListener, timeouts: Partial<HttpTimeouts> = {}): Promise<(path: string) => Promise<string>> {
  server = createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const made = createHttp({ secure: false, caPem: null, maxConnections: 1, timeouts: { ...TIMEOUTS, ...timeouts } });
  http = made;
  return async (path) => {
    const { response } = await made.handle({ method: 'PUT', hostname: '127.0.0.1', port, path, headers: {}, body: 'content' });
    return text(response.body);
  };
}

test('a request may wait longer for its answer than the server keeps idle connections', async () => {
  const put = await connected(async ({ url }, response) => {
    if (url === '/slow') await sleep(1_500);
    // Node lets an idle connection go a second before the server would.
    response.writeHead(200, { 'keep-alive': 'timeout=2' }).end(url);
  });
  expect(await put('/quick')).toBe('/quick');
  expect(await put('/slow')).toBe('/slow');
});

test('a request without an answer is a stall, on a kept connection too', async () => {
  const put = await connected(({ url }, response) => void (url === '/never' || response.end(url)), { stallMs: 500 });
  await expect(put('/never')).rejects.toMatchObject({ code: 'stalled' });
  expect(await put('/quick')).toBe('/quick');
  await expect(put('/never')).rejects.toMatchObject({ code: 'stalled' });
});
