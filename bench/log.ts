import { randomBytes } from 'node:crypto';
import pino from 'pino';
import type { EventStore } from '../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../src/adapters/event-store/postgres/log.ts';
import { connect } from '../src/adapters/postgres/connect.ts';
import { parseConfig } from '../src/config.ts';
import { type Installation, openInstallation } from '../src/installation.ts';
import { alternate } from './support/alternate.ts';
import { appendFor } from './support/appends.ts';
import type { Bench } from './support/bench.ts';
import { openAppenders } from './support/eventstoredb.ts';
import { writeHistories } from './support/histories.ts';
import { createMeter, type Pace, rebuildPace } from './support/pace.ts';
import { startPostgres } from './support/postgres.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';

const CALLERS = [1, 16, 64];
const PREFIX = 'waybill_';
/** A rebuild reports its progress every 2,000 events, so a tenth needs more than that. */
const LEAST_EVENTS = 100_000;

/**
 * Measures the Postgres log: appends, a read of the whole log, and a rebuild of the projection
 * `transfers`. With EVENTSTORE_URL: appends to that server, beside those of the bare client.
 */
export async function run(bench: Bench): Promise<void> {
  const server = process.env.EVENTSTORE_URL;
  if (server) return measureEventStoreDb(bench, server);
  const postgres = await startPostgres(bench);
  const environment = {
    DATABASE_URL: await postgres.createDatabase('log'),
    WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
    WAYBILL_STREAM_PREFIX: PREFIX,
  };
  const installation = await openInstallation(parseConfig(environment), pino({ level: 'silent' }));
  bench.defer(() => installation.close());
  const wanted = (part: string) =>
    bench.options.only.length === 0 || bench.options.only.includes(part);
  if (wanted('append')) await measureAppends(bench, environment.DATABASE_URL);
  if (wanted('read')) await measureReading(bench, installation);
}

async function measureEventStoreDb(bench: Bench, url: string): Promise<void> {
  const { runs, seconds } = bench.options;
  const appenders = openAppenders(bench, url);
  const rows: (string | number)[][] = [];
  for (const callers of CALLERS) {
    const results = await alternate(
      runs,
      Object.fromEntries(
        Object.entries(appenders).map(([name, appender]) => [
          name,
          () => appendFor(Array(callers).fill(appender), seconds),
        ]),
      ),
    );
    const pace = (name: string) => median(results[name]!.map(({ perSecond }) => perSecond));
    for (const [name, measured] of Object.entries(results)) {
      const at = (percent: number) =>
        median(measured.map(({ latencies }) => percentile(latencies, percent)));
      const gain = name === 'waybill' ? ratio(pace(name), pace('the bare client')) : '';
      rows.push([callers, name, pace(name), gain, at(50), at(99)]);
    }
  }
  printTable(
    `Appends of one event to an EventStoreDB: medians of ${runs}`,
    ['callers', 'who', 'appends/s', 'ratio', 'p50 ms', 'p99 ms'],
    rows,
  );
}

async function measureAppends({ options, defer }: Bench, url: string): Promise<void> {
  const rows: (string | number)[][] = [];
  for (const callers of CALLERS) {
    const sql = connect(url, { max: callers });
    defer(() => sql.end({ timeout: 1 }));
    const shared = createPostgresLog({ sql, prefix: PREFIX });
    // With a log for each caller, every append is a call and a transaction of its own.
    const own = Array.from({ length: callers }, () => createPostgresLog({ sql, prefix: PREFIX }));
    const results = await alternate(options.runs, {
      'in groups': () =>
        appendFor(
          Array.from({ length: callers }, () => shared),
          options.seconds,
        ),
      'one by one': () => appendFor(own, options.seconds),
    });
    const peer = median(results['one by one']!.map(({ perSecond }) => perSecond));
    for (const [how, measured] of Object.entries(results)) {
      const perSecond = median(measured.map((result) => result.perSecond));
      const at = (percent: number) =>
        median(measured.map(({ latencies }) => percentile(latencies, percent)));
      rows.push([
        callers,
        how,
        perSecond,
        how === 'one by one' ? '' : ratio(perSecond, peer),
        at(50),
        at(99),
      ]);
    }
  }
  printTable(
    `Appends of one event to the Postgres log: medians of ${options.runs}`,
    ['callers', 'how', 'appends/s', 'gain', 'p50 ms', 'p99 ms'],
    rows,
  );
}

async function measureReading({ options }: Bench, installation: Installation): Promise<void> {
  if (options.events < LEAST_EVENTS)
    throw new RangeError(
      `--events is ${options.events}, but must be at least ${LEAST_EVENTS}: a tenth of less ` +
        'is too short to time',
    );
  const events = await writeHistories(installation.sql, PREFIX, options.events);
  const results = await alternate(options.runs, {
    'read, in batches of 1,000': () => readAll(installation.store, events),
    'rebuild of transfers': () => rebuildPace(installation, 'transfers', events),
  });
  const medianOf = (measured: Pace[], figure: keyof Pace) =>
    median(measured.map((pace) => pace[figure]));
  printTable(
    `A log of ${events} events: medians of ${options.runs}`,
    ['work', 'events/s', 'first tenth', 'last tenth', 'last to first', 'total seconds'],
    Object.entries(results).map(([work, paces]) => {
      const [first, last] = [medianOf(paces, 'firstTenth'), medianOf(paces, 'lastTenth')];
      const [whole, seconds] = [medianOf(paces, 'whole'), medianOf(paces, 'seconds')];
      return [work, whole, first, last, ratio(last, first), seconds];
    }),
  );
}

async function readAll(store: EventStore, events: number): Promise<Pace> {
  const stop = new AbortController();
  const meter = createMeter(events);
  for await (const batch of store.subscribe({
    from: null,
    signal: stop.signal,
    streams: ['transfer-'],
  })) {
    meter.read(meter.count() + batch.events.length);
    if (batch.caughtUp) stop.abort();
  }
  return meter.pace();
}
