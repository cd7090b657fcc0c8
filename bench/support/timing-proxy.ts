import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Bench } from './bench.ts';

export interface TimingProxy {
  port: number;
  /** Resets the times: they describe what passes from now on. */
  arm(): void;
  /** `performance.now()` of the client's first bytes since then; null before them. */
  readonly askedAt: number | null;
  /** When the server had sent more than `FILE_BEGINS_AT` bytes since then; null before that. */
  readonly answeredAt: number | null;
}

/** More bytes than a server sends for a sign-in and the opening of a file. */
const FILE_BEGINS_AT = 64 * 1024;

/** Starts a proxy in front of a server on loopback that records when bytes pass. */
export async function startTimingProxy({ defer }: Bench, port: number): Promise<TimingProxy> {
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
