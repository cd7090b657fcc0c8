import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startProcess } from '../test/support/programs/server-process.ts';
import { alternate } from './support/alternate.ts';
import { appendFor } from './support/appends.ts';
import type { Bench } from './support/bench.ts';
import { openBareAppender } from './support/eventstoredb.ts';
import { load } from './support/load.ts';
import type { LoadOrder } from './support/load-process.ts';
import { startPostgres } from './support/postgres.ts';
import { printProfile, printStatements } from './support/profile.ts';
import { startService } from './support/service.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';
import { cpuSeconds } from './support/usage.ts';

const CONNECTIONS = [1, 16, 64];
const BARE_SERVER = join(import.meta.dirname, 'support/bare-server.ts');
/** Transfers that are read one by one. */
const KNOWN = 1_000;

/** Endpoints at which nothing listens. */
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

/**
 * Compares the API with a bare server that does the least a durable one must, on the same Postgres.
 * With EVENTSTORE_URL, also compares `POST` with appends of the bare client for an EventStoreDB.
 */
export async function run(bench: Bench): Promise<void> {
  const { runs, seconds, roles, profile, only } = bench.options;
  const postgres = await startPostgres(bench);
  const service = await startService(bench, {
    databaseUrl: await postgres.createDatabase('http'),
    endpoints: ENDPOINTS,
    roles,
  });
  const bare = await startBareServer(bench, await postgres.createDatabase('bare'));
  const ours = { url: service.url, headers: service.headers };
  const theirs = { url: bare.url, headers: { 'content-type': 'application/json' } };

  /** Runs a load. Adds the CPU milliseconds of a request, in the server and in Postgres. */
  const measured = async (pid: number, order: LoadOrder) => {
    const used = () => [cpuSeconds(pid), postgres.cpuSeconds()];
    const before = used();
    const logged = postgres.log === null ? 0 : statSync(postgres.log).size;
    const result = await load(order);
    const requests = result.latencies.length;
    if (profile && pid === service.pid) printStatements(postgres, logged, requests, 'request');
    const cpu = used().map(
      (after, i) => (((after ?? Number.NaN) - (before[i] ?? Number.NaN)) / requests) * 1_000,
    );
    return { ...result, cpu };
  };

  const eventStore = process.env.EVENTSTORE_URL;
  const client = eventStore ? openBareAppender(bench, eventStore) : null;
  const bareAppends = async (callers: number) => ({
    ...(await appendFor(Array(callers).fill(client), seconds)),
    cpu: [Number.NaN, Number.NaN],
  });

  const rows: (string | number | null)[][] = [];
  const measure = async (
    name: string,
    waybill: Request,
    peer: Request,
    { name: peerName, pid } = { name: 'bare', pid: bare.pid },
  ) => {
    if (only.length > 0 && !only.includes(name.split(' ')[0]!.toLowerCase())) return;
    for (const connections of CONNECTIONS) {
      const results = await alternate(runs, {
        waybill: () => measured(service.pid, { ...waybill, connections, seconds }),
        [peerName]: () => measured(pid, { ...peer, connections, seconds }),
        ...(client && name === 'POST' ? { 'bare append': () => bareAppends(connections) } : {}),
      });
      const rate = (who: string) => median(results[who]!.map(({ perSecond }) => perSecond));
      for (const who of Object.keys(results)) {
        const at = (percent: number) =>
          median(results[who]!.map(({ latencies }) => percentile(latencies, percent)));
        const cpu = [0, 1].map(
          (part) => median(results[who]!.map((result) => result.cpu[part]!)) || null,
        );
        rows.push([
          name,
          connections,
          who,
          rate(who),
          who === 'waybill' ? ratio(rate('waybill'), rate(peerName)) : '',
          at(50),
          at(99),
          ...cpu,
        ]);
      }
    }
  };

  // Fills the tables, and lets V8 compile what it runs often: one connection sends too few requests
  // for that within its first round.
  const fill = (request: Pick<Request, 'url' | 'headers'>, path: string) =>
    load({ ...request, method: 'POST', paths: [path], body: BODY, connections: 16, seconds: 5 });
  await fill(ours, '/v1/transfers');
  await fill(theirs, '/rows');

  const post: Request = { ...ours, method: 'POST', paths: ['/v1/transfers'], body: BODY };
  await measure('POST', post, { ...theirs, method: 'POST', paths: ['/rows'], body: BODY });
  await measure('POST with keys', { ...post, withKeys: true }, post, {
    name: 'without',
    pid: service.pid,
  });
  await measure(
    'GET page',
    { ...ours, method: 'GET', paths: ['/v1/transfers'] },
    { ...theirs, method: 'GET', paths: ['/rows'] },
  );
  const known = await service.sql<
    { transfer_id: string }[]
  >`select transfer_id from read.transfers order by random() limit ${KNOWN}`;
  await measure(
    'GET one',
    {
      ...ours,
      method: 'GET',
      paths: known.map(({ transfer_id }) => `/v1/transfers/${transfer_id}`),
    },
    { ...theirs, method: 'GET', paths: known.map((_, i) => `/rows/${i + 1}`) },
  );
  const [{ count } = { count: 0n }] = await service.sql<
    { count: bigint }[]
  >`select count(*) from read.transfers`;
  printTable(
    `HTTP, roles ${roles}: medians of ${runs} times ${seconds} s; ${count} transfers at the end`,
    [
      'request',
      'connections',
      'who',
      'requests/s',
      'of peer',
      'p50 ms',
      'p99 ms',
      'CPU ms',
      'Postgres CPU ms',
    ],
    rows,
  );
  await service.stop();
  if (profile) printProfile(service.pid);
}

async function startBareServer(
  { defer }: Bench,
  databaseUrl: string,
): Promise<{ url: string; pid: number }> {
  const { child, kill } = startProcess([process.execPath, BARE_SERVER, databaseUrl], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  defer(kill);
  const [url] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  return { url, pid: child.pid as number };
}
