import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
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

/** Returns a server that answers like this, and a client with one connection to it. */
async function started(
  answer: RequestListener,
  timeouts: Partial<HttpTimeouts> = {},
  host = '127.0.0.1',
) {
  server = createServer(answer);
  await once(server.listen(0, host), 'listening');
  const { port } = server.address() as AddressInfo;
  const client = createHttp({
    secure: false,
    caPem: null,
    maxConnections: 1,
    timeouts: { ...TIMEOUTS, ...timeouts },
    tunnel: null,
  });
  http = client;
  return { client, port };
}

/** Sends requests to a server that answers like this, all over one connection if it is kept. */
async function connected(
  answer: RequestListener,
  timeouts?: Partial<HttpTimeouts>,
): Promise<(path: string) => Promise<string>> {
  const { client, port } = await started(answer, timeouts);
  return async (path) => {
    const { response } = await client.handle({
      method: 'PUT',
      hostname: '127.0.0.1',
      port,
      path,
      headers: {},
      body: 'content',
    });
    return text(response.body);
  };
}

test('a request may wait longer than the server keeps idle connections', async () => {
  const put = await connected(async ({ url }, response) => {
    if (url === '/slow') await sleep(1_500);
    // Node closes an idle connection one second before the server would.
    response.writeHead(200, { 'keep-alive': 'timeout=2' }).end(url);
  });
  expect(await put('/quick')).toBe('/quick');
  expect(await put('/slow')).toBe('/slow');
});

test('a request without an answer is a stall, on a kept connection too', async () => {
  const put = await connected(({ url }, response) => void (url === '/never' || response.end(url)), {
    stallMs: 500,
  });
  await expect(put('/never')).rejects.toMatchObject({ code: 'stalled' });
  expect(await put('/quick')).toBe('/quick');
  await expect(put('/never')).rejects.toMatchObject({ code: 'stalled' });
});

const HAS_IPV6 = Object.values(networkInterfaces()).some((known) =>
  known?.some(({ address }) => address === '::1'),
);
const BRACKETS = 'an IPv6 address in the brackets of a URL is connected to';

test.skipIf(!HAS_IPV6)(
  HAS_IPV6 ? BRACKETS : `${BRACKETS} (skipped: this machine has no ::1)`,
  async () => {
    const answer: RequestListener = ({ method }, response) => {
      if (method === 'PUT') response.end('taken');
      else response.writeHead(206, { 'content-length': 7 }).end('content');
    };
    const { client, port } = await started(answer, {}, '::1');
    const request = { hostname: '[::1]', port, path: '/', headers: { host: `[::1]:${port}` } };
    const { response } = await client.handle({ ...request, method: 'PUT', body: 'content' });
    expect(await text(response.body)).toBe('taken');
    // Reads take another path, straight into memory.
    const target = { bytes: Buffer.alloc(7), filled: null };
    await client.handle({ ...request, method: 'GET' }, { target });
    expect([target.filled, target.bytes.toString()]).toEqual([7, 'content']);
  },
);

test('an answer that never ends is rejected', async () => {
  const put = await connected((_, response) => {
    const more = () => void (response.destroyed || response.write(Buffer.alloc(1 << 20), more));
    more();
  });
  await expect(put('/endless')).rejects.toMatchObject({
    code: 'connection_failed',
    message: 'The answer is too long',
  });
});
