import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Bench } from './support/bench.ts';
import { makeFiles } from './support/files.ts';
import { startPostgres } from './support/postgres.ts';
import { printProfile } from './support/profile.ts';
import { headOf, type RunningService, startService, untilCompleted } from './support/service.ts';
import { startSftpSide } from './support/sides.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable } from './support/table.ts';
import { startTap, type Tap } from './support/tap.ts';

const ONE_BY_ONE = 200;
const QUEUED = 500;
const FILE_BYTES = 1024 * 1024;
/** Long enough for the service to be idle again; no two alike, so that they don't keep step with a clock of ours. */
const pauseMs = (n: number) => 50 + ((n * 0.618) % 1) * 250;
const REQUEST = JSON.stringify({ source_uri: 'sftp://hospital/out/file-00000.bin', destination_uri: 'sftp://bank/in/' });

/** From the answer to a POST to the mover's first byte, and how right the promised starts are. */
export async function run(bench: Bench): Promise<void> {
  const postgres = await startPostgres(bench);
  const source = await startSftpSide(bench, 'hospital', 0);
  const destination = await startSftpSide(bench, 'bank', 0);
  await makeFiles(join(source.folder, 'out'), 1, FILE_BYTES);
  const tap = await startTap(bench, source.endpoint.port as number);
  const databaseUrl = await postgres.createDatabase('latency');
  const service = await startService(bench, { databaseUrl, endpoints: [{ ...source.endpoint, port: tap.port }, destination.endpoint] });
  const client = new Pool(service.url, { connections: 16 });
  bench.defer(() => client.destroy());
  await measureStarts(bench, service, client, tap);
  await measureEstimates(bench, service, client);
  await service.stop();
  if (bench.options.profile) printProfile(service.pid);
}

interface Created {
  id: string;
  estimated_start: string;
}

async function post(client: Pool, headers: Record<string, string>): Promise<Created> {
  const { statusCode, body } = await client.request({ method: 'POST', path: '/v1/transfers', headers, body: REQUEST });
  const answer = await body.json();
  if (statusCode !== 201) throw new Error(`POST answers ${statusCode}: ${JSON.stringify(answer)}`);
  return answer as Created;
}

async function measureStarts({ options }: Bench, { sql, headers }: RunningService, client: Pool, tap: Tap): Promise<void> {
  const count = Math.ceil(ONE_BY_ONE * options.scale);
  const answered: number[] = [];
  const asked: number[] = [];
  const firstByte: number[] = [];
  const completed: number[] = [];
  for (let n = 0; n <= count; n++) {
    const from = await headOf(sql);
    await sleep(pauseMs(n));
    tap.arm();
    const sentAt = performance.now();
    await post(client, headers);
    const createdAt = performance.now();
    await untilCompleted(sql, from, 1);
    const endedAt = performance.now();
    // The first one signs in.
    if (n === 0) continue;
    if (tap.askedAt === null || tap.answeredAt === null) throw new Error('a transfer was completed without a word to its source');
    answered.push(createdAt - sentAt);
    asked.push(tap.askedAt - createdAt);
    firstByte.push(tap.answeredAt - createdAt);
    completed.push(endedAt - createdAt);
  }
  const row = (what: string, values: number[]) => [what, median(values), percentile(values, 99), Math.min(...values), Math.max(...values)];
  printTable(
    `One transfer of 1 MiB at a time, idle service, warm connections: ${count} of them, in milliseconds`,
    ['from', 'median', 'p99', 'least', 'most'],
    [
      row('POST sent to 201', answered),
      row('201 to the first request at the source', asked),
      row('201 to the first bytes of the file', firstByte),
      row('201 to completed in the log', completed),
    ],
  );
}

async function measureEstimates({ options }: Bench, { sql, headers }: RunningService, client: Pool): Promise<void> {
  const count = Math.ceil(QUEUED * options.scale);
  const from = await headOf(sql);
  const started = performance.now();
  const created = await Promise.all(Array.from({ length: count }, () => post(client, headers)));
  const postedS = (performance.now() - started) / 1_000;
  await untilCompleted(sql, from, count);
  const rows = await sql<{ id: string; started: string; created: string }[]>`
    select s.data::json ->> 'started_at' as started, c.data::json ->> 'created_at' as created, c.data::json ->> 'transfer_id' as id
      from log.events s join log.events c on c.stream = s.stream and c.revision = 0
     where s.position > ${from} and s.type = 'transfer.in_progress'`;
  const estimates = new Map(created.map(({ id, estimated_start }) => [id, Date.parse(estimated_start)]));
  const errors = rows.map((row) => estimates.get(row.id)! - Date.parse(row.started));
  const waits = rows.map((row) => Date.parse(row.started) - Date.parse(row.created));
  const off = errors.map(Math.abs);
  printTable(
    `estimated_start of ${count} transfers created within ${postedS.toFixed(1)} s, in milliseconds`,
    ['figure', 'median', 'p90', 'most'],
    [
      ['wait from created to started', median(waits), percentile(waits, 90), Math.max(...waits)],
      ['distance of the estimate from the start', median(off), percentile(off, 90), Math.max(...off)],
      ['estimate later (+) or earlier (-) than the start', median(errors), percentile(errors, 90), Math.max(...errors)],
    ],
  );
}
