import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Seen from the client that connects to the proxy. */
export type Direction = 'up' | 'down';

export interface TcpProxy {
  host: string;
  port: number;
  /** Connections open through it. */
  readonly connections: number;
  /** Bytes forwarded since the start, over all connections. */
  readonly forwarded: Readonly<Record<Direction, number>>;
  /** Resets every connection. New ones are still taken. */
  cut(): void;
  /** Resets every connection once this many further bytes went in a direction; those bytes still arrive. */
  cutAfter(bytes: number, direction: Direction): void;
  /** New connections are refused from now on, as by a host without that service; or taken again. */
  refuse(on: boolean): Promise<void>;
  /** Nothing is forwarded any more while connections stay open, or it goes on where it stopped. */
  stall(on: boolean): void;
  /** Adds this many milliseconds to every round trip; throughput stays as it is. */
  delay(roundTripMs: number): void;
  /** Bytes a second in each direction and connection; Infinity for no limit. */
  throttle(bytesPerSecond: number): void;
  close(): Promise<void>;
}

// Holds what is on its way on a fast line with a long round trip.
const IN_FLIGHT_BYTES = 64 << 20;

/** A TCP proxy on loopback that makes a healthy server look like one on a bad network. */
export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<[Socket, Socket]>();
  const forwarded = { up: 0, down: 0 };
  const cutAt = { up: Infinity, down: Infinity };
  let delayMs = 0;
  let rate = Infinity;
  let stalled = Promise.withResolvers<void>();
  stalled.resolve();
  let server: Server | null = await listen(0);
  const { port } = server.address() as AddressInfo;

  async function listen(wanted: number): Promise<Server> {
    const listening = createServer({ noDelay: true }, join).listen(wanted, '127.0.0.1');
    await once(listening, 'listening');
    return listening;
  }

  function join(client: Socket): void {
    const upstream = connect({ ...target, noDelay: true });
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => {});
      socket.on('close', () => {
        pairs.delete(pair);
        for (const other of pair) other.destroy();
      });
    }
    void forward(client, upstream, 'up');
    void forward(upstream, client, 'down');
  }

  async function forward(from: Socket, to: Socket, direction: Direction): Promise<void> {
    const underway: { chunk: Buffer | null; due: number }[] = [];
    let bytes = 0;
    let arrived = Promise.withResolvers<void>();
    const push = (chunk: Buffer | null) => {
      underway.push({ chunk, due: performance.now() + delayMs / 2 });
      bytes += chunk?.length ?? 0;
      if (bytes > IN_FLIGHT_BYTES) from.pause();
      arrived.resolve();
    };
    from.on('data', push).on('end', () => push(null));
    to.on('close', () => arrived.resolve());
    while (!to.destroyed) {
      const next = underway.shift();
      if (!next) {
        arrived = Promise.withResolvers();
        await arrived.promise;
        continue;
      }
      const wait = next.due - performance.now();
      if (wait > 0) await sleep(wait);
      if (next.chunk === null) {
        to.end();
        return;
      }
      await send(to, next.chunk, direction);
      bytes -= next.chunk.length;
      if (bytes <= IN_FLIGHT_BYTES) from.resume();
    }
  }

  async function send(to: Socket, chunk: Buffer, direction: Direction): Promise<void> {
    for (let at = 0; at < chunk.length && !to.destroyed; ) {
      await stalled.promise;
      const slice = chunk.subarray(at, at + Math.min(Math.max(1, rate / 50), cutAt[direction] - forwarded[direction]));
      at += slice.length;
      forwarded[direction] += slice.length;
      const room = to.write(slice);
      if (forwarded[direction] >= cutAt[direction]) {
        cutAt[direction] = Infinity;
        // Written, but not yet on its way: a reset now would throw it away.
        await new Promise((written) => to.write('', written));
        cut();
      } else if (!room) await drained(to);
      if (rate < Infinity) await sleep((slice.length / rate) * 1000);
    }
  }

  function cut(): void {
    for (const sockets of pairs) for (const socket of sockets) socket.resetAndDestroy();
  }

  async function refuse(on: boolean): Promise<void> {
    if (on) {
      server?.close();
      server = null;
    } else server ??= await listen(port);
  }

  function stall(on: boolean): void {
    if (on) stalled = Promise.withResolvers();
    else stalled.resolve();
  }

  return {
    host: '127.0.0.1',
    port,
    forwarded,
    get connections() {
      return pairs.size;
    },
    cut,
    cutAfter(bytes, direction) {
      cutAt[direction] = forwarded[direction] + bytes;
    },
    refuse,
    stall,
    delay(roundTripMs) {
      delayMs = roundTripMs;
    },
    throttle(bytesPerSecond) {
      rate = bytesPerSecond;
    },
    async close() {
      await refuse(true);
      stall(false);
      cut();
    },
  };
}

function drained(socket: Socket): Promise<void> {
  return new Promise((done) => {
    const settle = () => {
      socket.off('drain', settle).off('close', settle);
      done();
    };
    socket.on('drain', settle).on('close', settle);
  });
}
