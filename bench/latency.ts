import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Bench } from './support/bench.ts';
import { untilCompleted } from './support/event-log.ts';
import { printBareAppends } from './support/eventstoredb.ts';
import { makeFiles } from './support/files.ts';
import { startPostgres } from './support/postgres.ts';
import { printProfile } from './support/profile.ts';
import { type RunningService, startService } from './support/service.ts';
import { startSftpSide } from './support/sides.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable } from './support/table.ts';
import { startTimingProxy, type TimingProxy } from './support/timing-proxy.ts';

const ONE_BY_ONE = 200;
const QUEUED = 500;
const FILE_BYTES = 1024 * 1024;
/** Idle time between transfers. No two are equal, so none keeps step with a timer of ours. */
const pauseMs = (n: number) => 50 + ((n * 0.618) % 1) * 250;
const REQUEST = JSON.stringify({
  source_uri: 'sftp://hospital/out/file-00000.bin',
  destination_uri: 'sftp://bank/in/',
});

/** Measures the time from a POST to the mover's first byte, and the error of `estimated_start`. */
export async function run(bench: Bench): Promise<void> {
  const postgres = await startPostgres(bench);
  const source = await startSftpSide(bench, 'hospital', 0);
  const destination = await startSftpSide(bench, 'bank', 0);
  await makeFiles(join(source.folder, 'out'), 1, FILE_BYTES);
  const timingProxy = await startTimingProxy(bench, source.endpoint.port as number);
  const databaseUrl = await postgres.createDatabase('latency');
  const service = await startService(bench, {
    databaseUrl,
    endpoints: [{ ...source.endpoint, port: timingProxy.port }, destination.endpoint],
  });
  const client = new Pool(service.url, { connections: 16 });
  bench.defer(() => client.destroy());
  await measureStarts(bench, service, client, timingProxy);
  await measureEstimates(bench, service, client);
  await service.stop();
  if (bench.options.profile) printProfile(service.pid);
}

interface Created {
  id: string;
  estimated_start: string;
}

async function post(client: Pool, headers: Record<string, string>): Promise<Created> {
  const { statusCode, body } = await client.request({
    method: 'POST',
    path: '/v1/transfers',
    headers,
    body: REQUEST,
  });
  const answer = await body.json();
  if (statusCode !== 201) throw new Error(`POST answers ${statusCode}: ${JSON.stringify(answer)}`);
  return answer as Created;
}

async function measureStarts(
  bench: Bench,
  { log, headers }: RunningService,
  client: Pool,
  timingProxy: TimingProxy,
): Promise<void> {
  const count = Math.ceil(ONE_BY_ONE * bench.options.scale);
  const answered: number[] = [];
  const asked: number[] = [];
  const firstByte: number[] = [];
  const completed: number[] = [];
  for (let n = 0; n <= count; n++) {
    const from = await log.head();
    await sleep(pauseMs(n));
    timingProxy.arm();
    const sentAt = performance.now();
    const [createdAt, endedAt] = await Promise.all([
      post(client, headers).then(() => performance.now()),
      untilCompleted(log, from, 1).then(() => performance.now()),
    ]);
    // The first transfer signs in, so it does not count.
    if (n === 0) continue;
    if (timingProxy.askedAt === null || timingProxy.answeredAt === null)
      throw new Error('a transfer completed without a request to its source');
    answered.push(createdAt - sentAt);
    asked.push(timingProxy.askedAt - createdAt);
    firstByte.push(timingProxy.answeredAt - createdAt);
    completed.push(endedAt - createdAt);
  }
  const row = (what: string, values: number[]) => [
    what,
    median(values),
    percentile(values, 99),
    Math.min(...values),
    Math.max(...values),
  ];
  printTable(
    `One transfer of 1 MiB at a time, idle service, warm connections: ${count} of them, in ` +
      'milliseconds',
    ['from', 'median', 'p99', 'min', 'max'],
    [
      row('POST sent to 201', answered),
      row('201 to the first request at the source', asked),
      row('201 to the first bytes of the file', firstByte),
      row('201 to completed in the log', completed),
    ],
  );
  await printBareAppends(bench, count, 1);
}

async function measureEstimates(
  { options }: Bench,
  { log, headers }: RunningService,
  client: Pool,
): Promise<void> {
  const count = Math.ceil(QUEUED * options.scale);
  const from = await log.head();
  const started = performance.now();
  const created = await Promise.all(Array.from({ length: count }, () => post(client, headers)));
  const postedS = (performance.now() - started) / 1_000;
  const events = await untilCompleted(log, from, count);
  const timesOf = (type: string, time: 'created_at' | 'started_at') =>
    new Map(
      events
        .filter((event) => event.type === type)
        .map(({ stream, data }) => [stream, Date.parse((data as Record<string, string>)[time]!)]),
    );
  const createdAt = timesOf('transfer.created', 'created_at');
  const startedAt = [...timesOf('transfer.in_progress', 'started_at')];
  const estimates = new Map(
    created.map(({ id, estimated_start }) => [`transfer-${id}`, Date.parse(estimated_start)]),
  );
  const errors = startedAt.map(([stream, at]) => estimates.get(stream)! - at);
  const waits = startedAt.map(([stream, at]) => at - createdAt.get(stream)!);
  const distances = errors.map(Math.abs);
  printTable(
    `estimated_start of ${count} transfers created within ${postedS.toFixed(1)} s, in milliseconds`,
    ['figure', 'median', 'p90', 'max'],
    [
      ['time from created to started', median(waits), percentile(waits, 90), Math.max(...waits)],
      [
        'error of the estimate',
        median(distances),
        percentile(distances, 90),
        Math.max(...distances),
      ],
      [
        'estimate after (+) or before (-) the start',
        median(errors),
        percentile(errors, 90),
        Math.max(...errors),
      ],
    ],
  );
}
