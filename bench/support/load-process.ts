import { randomUUID } from 'node:crypto';
import { Pool } from 'undici';

// Repeats a request over several connections. Each connection sends its next request when it has
// its answer. The first argument is the order, as JSON. The result goes to stdout, as JSON.
const order = JSON.parse(process.argv[2] as string) as LoadOrder;
const { url, connections, seconds } = order;
const pool = new Pool(new URL(url).origin, { connections, pipelining: 1 });
const latencies: number[] = [];
const started = performance.now();
const until = started + seconds * 1_000;
let sent = 0;
let failed = 0;

await Promise.all(
  Array.from({ length: connections }, async () => {
    while (performance.now() < until) {
      // Path and body change, so no cache can answer.
      const n = sent++;
      const path = order.paths[n % order.paths.length] as string;
      const body = order.body?.replaceAll('NUMBER', String(n));
      const before = performance.now();
      const answer = await pool.request({
        method: order.method,
        path,
        headers: order.withKeys
          ? { ...order.headers, 'idempotency-key': randomUUID() }
          : order.headers,
        body,
      });
      await answer.body.dump();
      latencies.push(performance.now() - before);
      if (answer.statusCode >= 300) failed++;
    }
  }),
);
const result: LoadResult = {
  perSecond: latencies.length / ((performance.now() - started) / 1_000),
  failed,
  latencies,
};
await pool.close();
console.log(JSON.stringify(result));

export interface LoadOrder {
  url: string;
  method: 'GET' | 'POST';
  /** Requested in turn. */
  paths: string[];
  headers: Record<string, string>;
  /** Each request has an Idempotency-Key of its own. */
  withKeys?: boolean;
  /** Each request replaces `NUMBER` in it with a new number. */
  body?: string;
  connections: number;
  seconds: number;
}

export interface LoadResult {
  perSecond: number;
  /** Answers with a status of 300 or more. */
  failed: number;
  /** Milliseconds. */
  latencies: number[];
}
