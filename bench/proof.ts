import { Pool } from 'undici';
import { openStore } from '../src/adapters/event-store/open-store.ts';
import { headOfNote } from '../src/domain/proof/checkpoint.ts';
import type { Installation } from '../src/installation.ts';
import { checkpointNow } from '../src/processes/proof/checkpoint-now.ts';
import type { KeptCheckpoint } from '../src/processes/verification/kept-checkpoints.ts';
import { verifyLog } from '../src/processes/verification/verify-log.ts';
import type { Bench } from './support/bench.ts';
import { appendHistories, writeHistories } from './support/histories.ts';
import { createMeter, type Pace, rebuildPace } from './support/pace.ts';
import { startPostgres } from './support/postgres.ts';
import { type RunningService, startService } from './support/service.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';

const CAUSE = { actor: 'cli:bench', correlationId: 'bench' };
const RECEIPTS = 500;

/**
 * Measures the Merkle tree of a log of `--events` events: the fold, a verification of the log with
 * a checkpoint, and receipts of transfers from all over the log. Each is measured once.
 */
export async function run(bench: Bench): Promise<void> {
  const postgres = await startPostgres(bench);
  let events = 0;
  const service = await startService(bench, {
    databaseUrl: await postgres.createDatabase('proof'),
    endpoints: [],
    roles: 'api',
    prepare: async (installation) => {
      events = await foldAndVerify(bench, installation);
    },
  });
  await measureReceipts(bench, service, events);
  await service.stop();
}

async function foldAndVerify({ options }: Bench, installation: Installation): Promise<number> {
  const events = process.env.EVENTSTORE_URL
    ? await appendHistories(installation.store, options.events)
    : await writeHistories(installation.sql, installation.config.streamPrefix, options.events);
  console.log(`${events} events are written`);
  const paces: Record<string, Pace> = {};
  for (const projection of ['transfers', 'proof'] as const)
    paces[`rebuild of ${projection}`] = await rebuildPace(installation, projection, events);
  const { note } = await checkpointNow(installation, CAUSE);
  const head = headOfNote(note);
  if (head === null) throw new Error(`not a checkpoint: ${note}`);
  paces['audit verify'] = await verify(installation, events, { ...head, source: 'bench' });
  printTable(
    `The tree of a log of ${events} events`,
    ['work', 'events/s', 'first tenth', 'last tenth', 'last to first', 'total seconds'],
    Object.entries(paces).map(([work, { whole, firstTenth, lastTenth, seconds }]) => [
      work,
      whole,
      firstTenth,
      lastTenth,
      ratio(lastTenth, firstTenth),
      seconds,
    ]),
  );
  return events;
}

/** Verifies the log with a checkpoint, as `waybill audit verify --checkpoint`. */
async function verify(
  { config, sql, patient, logId }: Installation,
  events: number,
  checkpoint: KeptCheckpoint,
): Promise<Pace> {
  const store = await openStore(config, sql, { keepsUnreadable: true });
  const meter = createMeter(events);
  const { faults, agreed } = await verifyLog(
    { store, sql: patient, logId, comparesApi: true, comparesTree: true },
    {
      checkpoints: [checkpoint],
      resume: null,
      report: async (fault) => console.error(fault),
      onProgress: (done) => meter.read(done),
      save: async () => undefined,
    },
  );
  await store.close();
  if (faults > 0 || agreed?.size !== checkpoint.size)
    throw new Error(`${faults} faults; agrees up to ${agreed?.size} of ${checkpoint.size} events`);
  return meter.pace();
}

/** Measures receipts over HTTP, on one connection, one after another. */
async function measureReceipts(
  { defer }: Bench,
  { sql, url, headers }: RunningService,
  events: number,
): Promise<void> {
  const transfers = await sql<{ id: string }[]>`
    select transfer_id as id from read.transfers
     order by hashtext(transfer_id) limit ${RECEIPTS}`;
  const client = new Pool(url, { connections: 1 });
  defer(() => client.destroy());
  const times: number[] = [];
  for (const { id } of transfers) {
    const from = performance.now();
    const path = `/v1/transfers/${id}/receipt`;
    const { statusCode, body } = await client.request({ method: 'GET', path, headers });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`GET ${path} answers ${statusCode}: ${text}`);
    times.push(performance.now() - from);
  }
  printTable(
    `Receipts of ${times.length} transfers in a log of ${events} events`,
    ['p50 ms', 'p99 ms', 'worst ms'],
    [[median(times), percentile(times, 99), Math.max(...times)]],
  );
}
