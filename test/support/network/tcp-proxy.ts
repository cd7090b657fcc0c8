import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, isInUse } from './free-port.ts';

/** As seen by the client that connects to the proxy. */
export type Direction = 'up' | 'down';

export type Condition = () => boolean | Promise<boolean>;

export interface TcpProxy {
  host: string;
  port: number;
  /** Open connections through it. */
  readonly connections: number;
  /** Bytes forwarded since the start, over all connections. */
  readonly forwarded: Readonly<Record<Direction, number>>;
  /** Connections that clients have reset. */
  readonly resets: number;
  /** Resets every connection. New ones are still accepted. */
  cut(): void;
  /**
   * Resets every connection after this many more bytes in a direction. Those bytes still arrive.
   */
  cutAfter(bytes: number, direction: Direction): void;
  /** Resets each connection after this many of its bytes, in both directions; Infinity for none. */
  cutEach(bytes: number): void;
  /** Like `cutEach`, but each connection stays open and carries nothing more. */
  stallEach(bytes: number): void;
  /**
   * Resets every connection, once, in place of the next bytes in a direction that match the
   * condition. Resolves then.
   */
  cutWhen(condition: Condition, direction: Direction): Promise<void>;
  /**
   * Holds back, once, the next bytes in a direction that match the condition, and all later bytes
   * of their connection. Other connections continue. Resolves then with a function that releases
   * the bytes. They arrive also if their sender has closed the connection. The function resolves
   * when a server has answered them, or has closed the connection: it is not ended before.
   */
  holdWhen(condition: Condition, direction: Direction): Promise<() => Promise<void>>;
  /**
   * Rejects new connections from now on, like a host without that service; or accepts them again.
   */
  refuse(on: boolean): Promise<void>;
  /**
   * Stops forwarding while connections stay open, or resumes it. New ones reach the target then.
   */
  stall(on: boolean): void;
  /** Adds this many milliseconds to every round trip; throughput stays the same. */
  delay(roundTripMs: number): void;
  /** Bytes a second in each direction and connection; Infinity for no limit. */
  throttle(bytesPerSecond: number): void;
  close(): Promise<void>;
}

// Holds the bytes in flight on a fast line with a long round trip. A narrow line holds the bytes of
// one second.
const IN_FLIGHT_BYTES = 64 << 20;

/**
 * Starts a TCP proxy on loopback that makes a healthy server look like one on a bad network. The
 * target's `morePorts` are reached under the same numbers, as one network with the first. Throws if
 * one of them is in use.
 */
export async function startTcpProxy(
  target: { host: string; port: number },
  morePorts: readonly number[] = [],
): Promise<TcpProxy> {
  const pairs = new Set<[Socket, Socket]>();
  /** Sockets whose bytes are, or were, held back, and when what was released is answered. */
  const held = new Map<Socket, Promise<void>>();
  const forwarded = { up: 0, down: 0 };
  const cutAt = { up: Infinity, down: Infinity };
  let resets = 0;
  let delayMs = 0;
  let rate = Infinity;
  let limit: { bytes: number; end: 'cut' | 'stall' } = { bytes: Infinity, end: 'cut' };
  let stalled = Promise.withResolvers<void>();
  stalled.resolve();
  /** `strike` resolves with whether to forward the bytes. */
  const planned: Record<
    Direction,
    { holds: Condition; strike(from: Socket, to: Socket): Promise<boolean> } | null
  > = {
    up: null,
    down: null,
  };
  const servers = [await listenFirst()];
  const { port } = (servers[0] as Server).address() as AddressInfo;
  const ports = [[port, target.port], ...morePorts.map((same) => [same, same])] as [
    number,
    number,
  ][];
  await listenOnAll(ports.slice(1));

  async function listenFirst(): Promise<Server> {
    for (;;) {
      try {
        return await listen(await freePort(), target.port);
      } catch (error) {
        if (!isInUse(error)) throw error;
      }
    }
  }

  async function listen(wanted: number, targetPort: number): Promise<Server> {
    const listening = createServer({ noDelay: true }, (client) => join(client, targetPort)).listen(
      wanted,
      '127.0.0.1',
    );
    await once(listening, 'listening');
    return listening;
  }

  async function listenOnAll(wanted: [number, number][]): Promise<void> {
    try {
      for (const [own, targetPort] of wanted) servers.push(await listen(own, targetPort));
    } catch (error) {
      for (const server of servers) server.close();
      throw error;
    }
  }

  function join(client: Socket, targetPort: number): void {
    const upstream = new Socket().setNoDelay();
    void stalled.promise.then(() => {
      if (!upstream.destroyed) upstream.connect(targetPort, target.host);
    });
    const pair: [Socket, Socket] = [client, upstream];
    client.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNRESET') resets++;
    });
    pairs.add(pair);
    // A connection to one of the further ports carries one file, and ends with it: the bytes in
    // flight must arrive.
    const isFile = targetPort !== target.port;
    for (const [socket, other] of [pair, pair.toReversed()] as [Socket, Socket][]) {
      socket.on('error', () => {});
      socket.on('close', async () => {
        // The other side of a silent line receives nothing at all.
        await stalled.promise;
        // What was held back still arrives: `forward` ends the other side after it.
        if (!held.has(socket) && (!isFile || !socket.readableEnded)) other.destroy();
        if (other.destroyed) pairs.delete(pair);
      });
    }
    let carried = 0;
    const carry = (bytes: number) => {
      carried += bytes;
      return carried < limit.bytes;
    };
    void forward(client, upstream, 'up', carry);
    void forward(upstream, client, 'down', carry);
  }

  const room = () => Math.min(IN_FLIGHT_BYTES, rate);

  /** `carry` counts bytes of the connection, and returns whether it may carry more. */
  async function forward(
    from: Socket,
    to: Socket,
    direction: Direction,
    carry: (bytes: number) => boolean,
  ): Promise<void> {
    const underway: { chunk: Buffer | null; due: number }[] = [];
    let bytes = 0;
    let arrived = Promise.withResolvers<void>();
    const push = (chunk: Buffer | null) => {
      underway.push({ chunk, due: performance.now() + delayMs / 2 });
      bytes += chunk?.length ?? 0;
      if (bytes > room()) from.pause();
      arrived.resolve();
    };
    from.on('data', push).on('end', () => push(null));
    from.on('close', () => held.has(from) && push(null));
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
        await held.get(from);
        to.end();
        return;
      }
      await send([from, to], next.chunk, direction);
      if (!carry(next.chunk.length)) {
        if (limit.end === 'stall') return void from.pause();
        await new Promise((written) => to.write('', written));
        for (const socket of [from, to]) socket.resetAndDestroy();
        return;
      }
      bytes -= next.chunk.length;
      if (bytes <= room()) from.resume();
    }
  }

  async function send(
    [from, to]: [Socket, Socket],
    chunk: Buffer,
    direction: Direction,
  ): Promise<void> {
    for (let at = 0; at < chunk.length && !to.destroyed; ) {
      await stalled.promise;
      const plan = planned[direction];
      if (plan && (await plan.holds()) && planned[direction] === plan) {
        planned[direction] = null;
        if (!(await plan.strike(from, to))) return;
      }
      const slice = chunk.subarray(
        at,
        at + Math.min(Math.max(1, rate / 50), cutAt[direction] - forwarded[direction]),
      );
      at += slice.length;
      forwarded[direction] += slice.length;
      const flushed = to.write(slice);
      if (forwarded[direction] >= cutAt[direction]) {
        cutAt[direction] = Infinity;
        // Written, but not sent yet: a reset now would discard it.
        await new Promise((written) => to.write('', written));
        cut();
      } else if (!flushed) await drained(to);
      if (rate < Infinity) await sleep((slice.length / rate) * 1000);
    }
  }

  function cut(): void {
    for (const sockets of pairs) for (const socket of sockets) socket.resetAndDestroy();
  }

  async function refuse(on: boolean): Promise<void> {
    if (on) for (const server of servers.splice(0)) server.close();
    else if (servers.length === 0) await listenOnAll(ports);
  }

  function stall(on: boolean): void {
    if (on) stalled = Promise.withResolvers();
    else stalled.resolve();
  }

  return {
    host: '127.0.0.1',
    port,
    forwarded,
    // Node may emit no 'close' for a socket that was reset while it ended.
    get connections() {
      return [...pairs].filter((pair) => pair.some(({ destroyed }) => !destroyed)).length;
    },
    get resets() {
      return resets;
    },
    cut,
    cutAfter(bytes, direction) {
      cutAt[direction] = forwarded[direction] + bytes;
    },
    cutEach(bytes) {
      limit = { bytes, end: 'cut' };
    },
    stallEach(bytes) {
      limit = { bytes, end: 'stall' };
    },
    cutWhen: (holds, direction) =>
      new Promise((resolve) => {
        const strike = async () => {
          cut();
          resolve();
          return false;
        };
        planned[direction] = { holds, strike };
      }),
    holdWhen: (holds, direction) =>
      new Promise((resolve) => {
        const strike = (from: Socket, to: Socket) => {
          const answered = Promise.withResolvers<void>();
          held.set(from, answered.promise);
          return new Promise<boolean>((letGo) =>
            resolve(() => {
              if (direction === 'down') answered.resolve();
              else to.once('data', () => answered.resolve()).once('close', answered.resolve);
              letGo(true);
              return answered.promise;
            }),
          );
        };
        planned[direction] = { holds, strike };
      }),
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
