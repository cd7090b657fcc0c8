import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { createStartUp } from '../src/start-up.ts';
import { freePort } from './support/network/free-port.ts';
import { until } from './support/service/transfers.ts';

const config = {
  host: '127.0.0.1',
  port: 0,
  tls: null,
  publicUrl: 'https://waybill.example.com',
  rateLimit: 100,
};
const logger = pino({ level: 'silent' });

it('gives up a step that a silent store holds up, when the process must stop', async () => {
  const stop = new AbortController();
  const startUp = createStartUp(config, logger, stop.signal);
  const starting = startUp.attempt(() => new Promise<never>(() => undefined));
  stop.abort(new Error('stopped'));
  const late = sleep(8_000, 'late', { ref: false });
  await expect(Promise.race([starting, late])).rejects.toThrow('stopped');
  await startUp.close();
});

const HEAD = 'POST /v1/transfers HTTP/1.1\r\nHost: localhost\r\n';
const BODY_BYTES = 4 << 20;
const UNAVAILABLE = /^HTTP\/1\.1 503 .*\r\nconnection: close\r\n.*"code":"unavailable"/is;

async function answering() {
  const address = { ...config, port: await freePort() };
  const startUp = createStartUp(address, logger, new AbortController().signal);
  onTestFinished(() => startUp.close());
  await startUp.listen();
  const live = `http://127.0.0.1:${address.port}/health/live`;
  const api = createServer((_request, response) => response.end('the API'));
  onTestFinished(() => void api.close());
  return {
    address,
    live,
    async open(): Promise<Socket> {
      const socket = connect(address.port, address.host);
      await once(socket, 'connect');
      return socket;
    },
    async takeOver(): Promise<void> {
      startUp.handOver(api);
      api.listen(address);
      await once(api, 'listening');
    },
  };
}

it('answers a request whose body is larger than what the connection can hold', async () => {
  const { open } = await answering();
  const socket = await open();
  socket.write(`${HEAD}Content-Length: ${BODY_BYTES}\r\n\r\n`);
  socket.write(Buffer.alloc(BODY_BYTES));
  expect(await text(socket)).toMatch(UNAVAILABLE);
});

it('answers with the headers that the API sets', async () => {
  const { address, live } = await answering();
  const common = {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'strict-transport-security': 'max-age=31536000',
    'cache-control': 'no-store',
  };
  const headersOf = async (path: string) => {
    const { headers } = await fetch(`http://127.0.0.1:${address.port}${path}`);
    return Object.fromEntries(headers);
  };
  for (const path of ['/v1/transfers?limit=1', '/%761/transfers']) {
    const sent = Date.now();
    const headers = await headersOf(path);
    expect(headers).toMatchObject({
      ...common,
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '0',
    });
    // Five seconds after the answer, in whole seconds.
    const answeredAt = Number(headers['x-ratelimit-reset']) - 5;
    expect(answeredAt).toBeGreaterThanOrEqual(Math.floor(sent / 1_000));
    expect(answeredAt).toBeLessThanOrEqual(Date.now() / 1_000);
  }
  expect(await headersOf('/metrics')).toMatchObject({ ...common, 'x-ratelimit-limit': '100' });
  const health = (await fetch(live)).headers;
  expect(Object.fromEntries(health)).toMatchObject(common);
  expect(health.has('x-ratelimit-limit')).toBe(false);
});

it('answers the requests of connections that were open when the API took over', async () => {
  const { open, takeOver, live } = await answering();
  const silent = await open();
  const busy = await open();
  busy.write(`${HEAD}Content-Length: 4\r\n\r\n{"`);
  await takeOver();
  expect(await (await fetch(live)).text()).toBe('the API');
  silent.write(`${HEAD}\r\n`);
  busy.write('"}');
  expect(await text(silent)).toMatch(UNAVAILABLE);
  expect(await text(busy)).toMatch(UNAVAILABLE);
});

it('loses no connection that waits to be accepted when the API takes over', async () => {
  const { address, takeOver } = await answering();
  const folder = await mkdtemp(join(tmpdir(), 'waybill-start-up-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'answer');
  // The shell ends before `cat` opens it.
  await writeFile(file, '');
  // This process accepts nothing until the script has sent its request.
  const script = `
    exec 3<>/dev/tcp/${address.host}/${address.port}
    printf 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    cat <&3 >${file} 2>&1 &`;
  execFileSync('bash', ['-c', script], { stdio: 'ignore' });
  await takeOver();
  await until('the API answers', async () => (await readFile(file, 'utf8')).endsWith('the API'));
});
