import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import {
  createHttp,
  type Http,
  type SdkRequest,
} from '../../../../src/adapters/files/http/http.ts';
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
): Promise<(path: string, request?: Partial<SdkRequest>) => Promise<string>> {
  const { client, port } = await started(answer, timeouts);
  return async (path, request = {}) => {
    const { response } = await client.handle({
      method: 'PUT',
      hostname: '127.0.0.1',
      port,
      path,
      headers: {},
      body: 'content',
      ...request,
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

/** Answers by a byte every tenth of a second, for two seconds: in the body, or in the headers. */
const byteByByte: RequestListener = async ({ url }, response) => {
  const { socket } = response;
  if (url === '/body') response.writeHead(200);
  else socket?.write('HTTP/1.1 200 OK\r\nconnection: close\r\nx: ');
  for (let byte = 0; byte < 20 && !socket?.destroyed; byte++) {
    if (url === '/body') response.write(' ');
    else socket?.write('x');
    await sleep(100);
  }
  if (url === '/body') response.end('done');
  else socket?.end('\r\n\r\ndone');
};

test.each(['/body', '/headers'])(
  'an answer that comes byte by byte is a stall: in its %s',
  async (path) => {
    const put = await connected(byteByByte, { slowMs: 500 });
    for (const method of ['PUT', 'HEAD', 'DELETE'])
      if (path !== '/body' || method !== 'HEAD')
        await expect(put(path, { method, body: undefined })).rejects.toMatchObject({
          code: 'stalled',
          message: expect.stringMatching(/less than 64 KiB went in or out/),
        });
  },
);

test.each([
  ['a copy in S3', { headers: { 'x-amz-copy-source': 'bucket/key' } }],
  ['a copy in Azure', { headers: { 'x-ms-copy-source': 'https://account/container/blob' } }],
  ['an upload that is completed', { method: 'POST' }],
])('%s may send spaces until it is done', async (_, request) => {
  const put = await connected(byteByByte, { slowMs: 500 });
  expect((await put('/body', request)).trim()).toBe('done');
});
