import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Bench } from './bench.ts';

export interface Tap {
  port: number;
  /** Begins to watch anew: the figures are of what passes from now on. */
  arm(): void;
  /** When the client next said something, as `performance.now()`; null where it has not. */
  readonly askedAt: number | null;
  /** When more than `FILE_BEGINS_AT` bytes had come from the server; null where they have not. */
  readonly answeredAt: number | null;
}

/** More than a server says when somebody signs in, and opens a file. */
const FILE_BEGINS_AT = 64 * 1024;

/** Stands before a server on loopback and notes when something passes. */
export async function startTap({ defer }: Bench, port: number): Promise<Tap> {
  let askedAt: number | null = null;
  let answeredAt: number | null = null;
  let received = 0;
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port, host: '127.0.0.1', noDelay: true });
    client.on('data', () => {
      askedAt ??= performance.now();
    });
    upstream.on('data', (chunk) => {
      received += chunk.length;
      if (received > FILE_BEGINS_AT) answeredAt ??= performance.now();
    });
    client.pipe(upstream).pipe(client);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  defer(() => server.close());
  return {
    port: (server.address() as AddressInfo).port,
    arm() {
      askedAt = null;
      answeredAt = null;
      received = 0;
    },
    get askedAt() {
      return askedAt;
    },
    get answeredAt() {
      return answeredAt;
    },
  };
}
