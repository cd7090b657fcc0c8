import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore } from '../src/adapters/event-store/port.ts';
import { newId } from '../src/domain/ids.ts';
import { CHECKPOINT_CHANNEL } from '../src/projections/checkpoint.ts';
import type { Bench } from './support/bench.ts';
import { bareArrivals } from './support/eventstoredb.ts';
import { newHistory } from './support/histories.ts';
import { startPostgres } from './support/postgres.ts';
import { printProfile } from './support/profile.ts';
import { startService } from './support/service.ts';
import { percentile } from './support/statistics.ts';
import { printTable } from './support/table.ts';
import { cpuSeconds } from './support/usage.ts';

/** Events of the bare client, and the milliseconds between them. */
const BARE_EVENTS = 500;
const BARE_EVERY_MS = 10;

/** Each transfer has four events. */
const TRANSFERS_PER_SECOND = 250;

/** An event that is in the log: its position and when its append was answered. */
interface Appended {
  position: bigint;
  at: number;
}

/**
 * Measures how far the read model of transfers is behind a log that grows by 1,000 events a second:
 * from the answer to an append until the model shows the event. With EVENTSTORE_URL, also until a
 * subscription of the bare client has the event.
 */
export async function run(bench: Bench): Promise<void> {
  const { runs, seconds, profile } = bench.options;
  const postgres = await startPostgres(bench);
  const service = await startService(bench, {
    databaseUrl: await postgres.createDatabase('lag'),
    endpoints: [],
    roles: 'api,projector',
  });
  let waiting: Appended[] = [];
  let lags: number[] = [];
  const { unlisten } = await service.sql.listen(CHECKPOINT_CHANNEL, (payload) => {
    const [name, position = ''] = payload.split(':');
    if (name !== 'transfers') return;
    const now = performance.now();
    const isShown = (event: Appended) => event.position <= BigInt(position);
    lags.push(...waiting.filter(isShown).map(({ at }) => Math.max(0, now - at)));
    waiting = waiting.filter((event) => !isShown(event));
  });

  const rows: (string | number | null)[][] = [];
  // The first round warms up.
  for (let round = 0; round <= runs; round++) {
    lags = [];
    const cpu = cpuSeconds(service.pid) ?? Number.NaN;
    const started = performance.now();
    await appendAtRate(service.log, seconds, (event) => waiting.push(event));
    const elapsed = (performance.now() - started) / 1_000;
    while (waiting.length > 0) await sleep(10);
    if (round === 0) continue;
    const used = (((cpuSeconds(service.pid) ?? Number.NaN) - cpu) / lags.length) * 1_000;
    rows.push([round, lags.length / elapsed, ...figuresOf(lags), used]);
  }
  await unlisten();
  const server = process.env.EVENTSTORE_URL;
  if (server) {
    const arrivals = await bareArrivals(bench, server, BARE_EVENTS, BARE_EVERY_MS);
    rows.push(['bare subscription', null, ...figuresOf(arrivals), null]);
  }
  printTable(
    'From the answer to an append until the read model shows the event',
    ['round', 'events/s', 'p50 ms', 'p99 ms', 'worst ms', 'CPU ms an event, service'],
    rows,
  );
  await service.stop();
  if (profile) printProfile(service.pid);
}

/** Returns median, 99th percentile and maximum. */
function figuresOf(times: number[]): number[] {
  return [50, 99, 100].map((percent) => percentile(times, percent));
}

/** Starts a transfer every few milliseconds, and appends its events one after the other. */
async function appendAtRate(
  log: EventStore,
  seconds: number,
  appended: (event: Appended) => void,
): Promise<void> {
  const started = performance.now();
  const transfers: Promise<void>[] = [];
  for (let n = 0; n < seconds * TRANSFERS_PER_SECOND; n++) {
    const due = started + (n / TRANSFERS_PER_SECOND) * 1_000;
    await sleep(Math.max(0, due - performance.now()));
    transfers.push(appendHistory(log, appended));
  }
  await Promise.all(transfers);
}

async function appendHistory(log: EventStore, appended: (event: Appended) => void): Promise<void> {
  const id = newId('txr');
  for (const [revision, event] of newHistory(id).entries()) {
    const expected = revision === 0 ? 'no_stream' : revision - 1;
    const { position } = await log.append(`transfer-${id}`, expected, [event]);
    appended({ position, at: performance.now() });
  }
}
