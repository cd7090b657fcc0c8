import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

let echo: ReturnType<typeof createServer>;
let proxy: TcpProxy;
let client: Socket;

beforeEach(async () => {
  echo = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startTcpProxy({ host: '127.0.0.1', port: (echo.address() as AddressInfo).port });
  client = await connectToProxy();
});

afterEach(async () => {
  client.destroy();
  await proxy.close();
  echo.close();
});

async function connectToProxy(): Promise<Socket> {
  const socket = connect(proxy.port, proxy.host);
  await once(socket, 'connect');
  return socket;
}

async function receive(bytes: number): Promise<number> {
  let received = 0;
  for await (const chunk of client.iterator({ destroyOnReturn: false })) {
    received += (chunk as Buffer).length;
    if (received >= bytes) break;
  }
  return received;
}

function ended(socket: Socket): Promise<string> {
  return new Promise((done) =>
    socket
      .on('error', (error) => done((error as NodeJS.ErrnoException).code ?? ''))
      .on('end', () => done('end')),
  );
}

// The server of another test file may have had this port before, and its clients connect again.
test('bytes are forwarded in both directions and counted', { retry: 2 }, async () => {
  client.write(Buffer.alloc(1_000_000));
  expect(await receive(1_000_000)).toBe(1_000_000);
  expect(proxy.forwarded).toEqual({ up: 1_000_000, down: 1_000_000 });
  expect(proxy.connections).toBe(1);
});

test('cut resets open connections and accepts new ones', async () => {
  client.write('x');
  await receive(1);
  const end = ended(client);
  proxy.cut();
  expect(await end).toBe('ECONNRESET');
  client = await connectToProxy();
  client.write('x');
  expect(await receive(1)).toBe(1);
});

test('cutAfter lets exactly this many bytes through', async () => {
  proxy.cutAfter(10, 'up');
  const end = ended(client);
  client.write(Buffer.alloc(100));
  await end;
  expect(proxy.forwarded.up).toBe(10);
});

test('holdWhen holds back one connection until it is released', async () => {
  client.write('x');
  await receive(1);
  const held = proxy.holdWhen(() => true, 'up');
  client.write('y');
  const letGo = await held;
  client.write('z');
  const another = await connectToProxy();
  another.write('x');
  await once(another, 'data');
  another.destroy();
  expect(proxy.forwarded.up).toBe(2);
  const answer = receive(2);
  void letGo();
  expect(await answer).toBe(2);
});

test('bytes that were held back arrive after their sender has gone', async () => {
  client.write('x');
  await receive(1);
  const held = proxy.holdWhen(() => true, 'up');
  client.write('y');
  const letGo = await held;
  client.write('z');
  client.destroy();
  expect(proxy.forwarded.up).toBe(1);
  void letGo();
  await vi.waitUntil(() => proxy.connections === 0);
  expect(proxy.forwarded.up).toBe(3);
});

test('refuse rejects new connections and keeps the open ones', async () => {
  await proxy.refuse(true);
  await expect(connectToProxy()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  client.write('x');
  expect(await receive(1)).toBe(1);
  await proxy.refuse(false);
  (await connectToProxy()).destroy();
});

test('stall holds bytes back until it ends', async () => {
  client.write('x');
  await receive(1);
  proxy.stall(true);
  client.write('y');
  expect(proxy.forwarded.up).toBe(1);
  const answer = receive(1);
  proxy.stall(false);
  expect(await answer).toBe(1);
});

// Times are compared with lower bounds only, which a busy machine cannot break.
test('delay adds a round trip and does not block later bytes', async () => {
  proxy.delay(200);
  const start = performance.now();
  client.write('x');
  await receive(1);
  expect(performance.now() - start).toBeGreaterThan(190);
  client.write(Buffer.alloc(8_000_000));
  expect(await receive(8_000_000)).toBe(8_000_000);
});

test('throttle spreads bytes over time', async () => {
  proxy.throttle(100_000);
  const start = performance.now();
  client.write(Buffer.alloc(20_000));
  expect(await receive(20_000)).toBe(20_000);
  expect(performance.now() - start).toBeGreaterThan(150);
});
