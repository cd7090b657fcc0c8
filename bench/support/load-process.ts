import { Pool } from 'undici';

// Asks one thing again and again, each connection the next time when it has its answer. The order comes
// as JSON in the first argument; what came of it goes to stdout as JSON.
const order = JSON.parse(process.argv[2] as string) as LoadOrder;
const { url, connections, seconds } = order;
const pool = new Pool(new URL(url).origin, { connections, pipelining: 1 });
const latencies: number[] = [];
const started = performance.now();
const until = started + seconds * 1_000;
let asked = 0;
let failed = 0;

await Promise.all(
  Array.from({ length: connections }, async () => {
    while (performance.now() < until) {
      // The paths and the body are not the same each time: nothing may answer from memory by chance.
      const n = asked++;
      const path = order.paths[n % order.paths.length] as string;
      const body = order.body?.replaceAll('NUMBER', String(n));
      const before = performance.now();
      const answer = await pool.request({ method: order.method, path, headers: order.headers, body });
      await answer.body.dump();
      latencies.push(performance.now() - before);
      if (answer.statusCode >= 300) failed++;
    }
  }),
);
const result: LoadResult = { perSecond: latencies.length / ((performance.now() - started) / 1_000), failed, latencies };
await pool.close();
console.log(JSON.stringify(result));

export interface LoadOrder {
  url: string;
  method: 'GET' | 'POST';
  /** Asked in turn. */
  paths: string[];
  headers: Record<string, string>;
  /** `NUMBER` in it is replaced by another one each time. */
  body?: string;
  connections: number;
  seconds: number;
}

export interface LoadResult {
  perSecond: number;
  /** Answers of 300 and more. */
  failed: number;
  /** Milliseconds. */
  latencies: number[];
}
