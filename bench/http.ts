import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startProcess } from '../test/support/server-process.ts';
import { alternate } from './support/alternate.ts';
import type { Bench } from './support/bench.ts';
import { load } from './support/load.ts';
import type { LoadOrder } from './support/load-process.ts';
import { startPostgres } from './support/postgres.ts';
import { printProfile } from './support/profile.ts';
import { startService } from './support/service.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';

const CONNECTIONS = [1, 16, 64];
const BARE_SERVER = join(import.meta.dirname, 'support/bare-server.ts');
/** Transfers that are asked for one by one. */
const KNOWN = 1_000;

/** Nothing is ever moved there. */
const ENDPOINTS = ['hospital', 'bank'].map((name) => ({
  name,
  protocol: 'sftp',
  host: '127.0.0.1',
  port: 1,
  username: 'nobody',
  password: 'none',
}));
const BODY = JSON.stringify({
  source_uri: 'sftp://hospital/lab/NUMBER.pdf',
  destination_uri: 'sftp://bank/inbox/',
  notify_on_complete: true,
  metadata: { batch: 'nightly', department: 'radiology' },
});

type Request = Omit<LoadOrder, 'connections' | 'seconds'>;

/** The API beside a bare route that does the least that a durable one must, on the same Postgres. */
export async function run(bench: Bench): Promise<void> {
  const { runs, seconds, roles, profile, only } = bench.options;
  const postgres = await startPostgres(bench);
  const service = await startService(bench, { databaseUrl: await postgres.createDatabase('http'), endpoints: ENDPOINTS, roles });
  const bare = await startBareServer(bench, await postgres.createDatabase('bare'));
  const ours = { url: service.url, headers: service.headers };
  const theirs = { url: bare, headers: { 'content-type': 'application/json' } };

  const rows: (string | number)[][] = [];
  const measure = async (name: string, waybill: Request, peer: Request) => {
    if (only.length > 0 && !only.includes(name.split(' ')[0]!.toLowerCase())) return;
    for (const connections of CONNECTIONS) {
      const results = await alternate(runs, {
        waybill: () => load({ ...waybill, connections, seconds }),
        bare: () => load({ ...peer, connections, seconds }),
      });
      const rate = (who: string) => median(results[who]!.map(({ perSecond }) => perSecond));
      for (const who of ['waybill', 'bare']) {
        const at = (percent: number) => median(results[who]!.map(({ latencies }) => percentile(latencies, percent)));
        rows.push([name, connections, who, rate(who), who === 'waybill' ? ratio(rate('waybill'), rate('bare')) : '', at(50), at(99)]);
      }
    }
  };

  await measure(
    'POST',
    { ...ours, method: 'POST', paths: ['/v1/transfers'], body: BODY },
    { ...theirs, method: 'POST', paths: ['/rows'], body: BODY },
  );
  const fill = (request: Pick<Request, 'url' | 'headers'>, path: string) =>
    load({ ...request, method: 'POST', paths: [path], body: BODY, connections: 16, seconds: 5 });
  if (only.length > 0) await Promise.all([fill(ours, '/v1/transfers'), fill(theirs, '/rows')]);
  await measure('GET page', { ...ours, method: 'GET', paths: ['/v1/transfers'] }, { ...theirs, method: 'GET', paths: ['/rows'] });
  const known = await service.sql<{ transfer_id: string }[]>`select transfer_id from read.transfers order by random() limit ${KNOWN}`;
  await measure(
    'GET one',
    { ...ours, method: 'GET', paths: known.map(({ transfer_id }) => `/v1/transfers/${transfer_id}`) },
    { ...theirs, method: 'GET', paths: known.map((_, i) => `/rows/${i + 1}`) },
  );
  const [{ count } = { count: 0n }] = await service.sql<{ count: bigint }[]>`select count(*) from read.transfers`;
  printTable(
    `HTTP, roles ${roles}: medians of ${runs} times ${seconds} s; ${count} transfers in the end`,
    ['request', 'connections', 'who', 'requests/s', 'of bare', 'p50 ms', 'p99 ms'],
    rows,
  );
  await service.stop();
  if (profile) printProfile(service.pid);
}

async function startBareServer({ defer }: Bench, databaseUrl: string): Promise<string> {
  const { child, kill } = startProcess([process.execPath, BARE_SERVER, databaseUrl], { stdio: ['ignore', 'pipe', 'inherit'] });
  defer(kill);
  const [url] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  return url;
}
