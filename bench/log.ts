import { randomBytes } from 'node:crypto';
import pino from 'pino';
import type { EventStore } from '../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../src/adapters/event-store/postgres-log.ts';
import { connect } from '../src/adapters/postgres/connect.ts';
import { parseConfig } from '../src/config.ts';
import { newId } from '../src/domain/ids.ts';
import { type Installation, openInstallation } from '../src/installation.ts';
import { rebuildProjection } from '../src/projections/rebuild.ts';
import { alternate } from './support/alternate.ts';
import type { Bench } from './support/bench.ts';
import { writeHistories } from './support/histories.ts';
import { startPostgres } from './support/postgres.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';

const CALLERS = [1, 16, 64];
const PREFIX = 'waybill_';
/** A rebuild tells of every 5,000 events. */
const LEAST_EVENTS = 100_000;

/** The Postgres log: appends, reading it all, and making the projection of transfers anew from it. */
export async function run(bench: Bench): Promise<void> {
  const postgres = await startPostgres(bench);
  const environment = {
    DATABASE_URL: await postgres.createDatabase('log'),
    WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
    WAYBILL_STREAM_PREFIX: PREFIX,
  };
  const installation = await openInstallation(parseConfig(environment), pino({ level: 'silent' }));
  bench.defer(() => installation.close());
  const wanted = (part: string) => bench.options.only.length === 0 || bench.options.only.includes(part);
  if (wanted('append')) await measureAppends(bench, environment.DATABASE_URL);
  if (wanted('read')) await measureReading(bench, installation);
}

interface Appends {
  perSecond: number;
  /** Milliseconds. */
  latencies: number[];
}

async function measureAppends({ options, defer }: Bench, url: string): Promise<void> {
  const rows: (string | number)[][] = [];
  for (const callers of CALLERS) {
    const sql = connect(url, { max: callers });
    defer(() => sql.end({ timeout: 1 }));
    const shared = createPostgresLog({ sql, prefix: PREFIX });
    // A log for each caller: every append is then a call, and a transaction, of its own.
    const own = Array.from({ length: callers }, () => createPostgresLog({ sql, prefix: PREFIX }));
    const results = await alternate(options.runs, {
      'in groups': () =>
        append(
          Array.from({ length: callers }, () => shared),
          options.seconds,
        ),
      'one by one': () => append(own, options.seconds),
    });
    const peer = median(results['one by one']!.map(({ perSecond }) => perSecond));
    for (const [how, measured] of Object.entries(results)) {
      const perSecond = median(measured.map((result) => result.perSecond));
      const at = (percent: number) => median(measured.map(({ latencies }) => percentile(latencies, percent)));
      rows.push([callers, how, perSecond, how === 'one by one' ? '' : ratio(perSecond, peer), at(50), at(99)]);
    }
  }
  printTable(
    `Appends of one event to the Postgres log: medians of ${options.runs}`,
    ['callers', 'how', 'appends/s', 'gain', 'p50 ms', 'p99 ms'],
    rows,
  );
}

/** Each caller appends to streams of its own, one event after the other, ten to a stream. */
async function append(stores: EventStore[], seconds: number): Promise<Appends> {
  const latencies: number[] = [];
  const started = performance.now();
  const until = started + seconds * 1_000;
  await Promise.all(
    stores.map(async (store) => {
      for (let n = 0, stream = ''; performance.now() < until; n++) {
        const revision = n % 10;
        if (revision === 0) stream = `bench-${newId('txr')}`;
        const before = performance.now();
        await store.append(stream, revision === 0 ? 'no_stream' : revision - 1, [newEvent()]);
        latencies.push(performance.now() - before);
      }
    }),
  );
  return { perSecond: latencies.length / ((performance.now() - started) / 1_000), latencies };
}

function newEvent() {
  const occurred_at = new Date().toISOString();
  return {
    id: newId('evt'),
    type: 'bench.happened',
    schema_version: 1,
    data: { source: 'sftp://hospital/lab/0123456789.pdf', destination: 'sftp://bank/inbox/0123456789.pdf', filler: 'x'.repeat(300) },
    metadata: { actor: 'bench', account_id: null, correlation_id: 'bench', causation_id: null, occurred_at, prev_hash: 'd'.repeat(64) },
  };
}

interface Pace {
  /** In all, with what comes after the last event: a rebuild compares the new tables with the live ones, and swaps them. */
  seconds: number;
  whole: number;
  firstTenth: number;
  lastTenth: number;
}

async function measureReading({ options }: Bench, installation: Installation): Promise<void> {
  if (options.events < LEAST_EVENTS) throw new RangeError(`a tenth of less than ${LEAST_EVENTS} events is too little to time`);
  const events = await writeHistories(installation.sql, PREFIX, options.events);
  const results = await alternate(options.runs, {
    'read, in batches of 1,000': () => readAll(installation.store, events),
    'rebuild of transfers': () => rebuild(installation, events),
  });
  const of = (measured: Pace[], figure: keyof Pace) => median(measured.map((pace) => pace[figure]));
  printTable(
    `A log of ${events} events: medians of ${options.runs}`,
    ['work', 'events/s', 'first tenth', 'last tenth', 'last to first', 'seconds in all'],
    Object.entries(results).map(([work, paces]) => {
      const [first, last] = [of(paces, 'firstTenth'), of(paces, 'lastTenth')];
      return [work, of(paces, 'whole'), first, last, ratio(last, first), of(paces, 'seconds')];
    }),
  );
}

async function readAll(store: EventStore, events: number): Promise<Pace> {
  const stop = new AbortController();
  const meter = createMeter(events);
  for await (const batch of store.subscribe({ from: null, signal: stop.signal, streams: ['transfer-'] })) {
    meter.read(meter.count() + batch.events.length);
    if (batch.caughtUp) stop.abort();
  }
  return meter.pace();
}

async function rebuild(installation: Installation, events: number): Promise<Pace> {
  const meter = createMeter(events);
  await rebuildProjection(installation, 'transfers', (progress) => meter.read(progress.events));
  return meter.pace();
}

/** Notes when the first tenth had been read, and when the last began. */
function createMeter(events: number) {
  const started = performance.now();
  const marks: { events: number; at: number }[] = [{ events: 0, at: started }];
  const since = (from: number, to: number) => {
    const [a, b] = [from, to].map((share) => marks.find((mark) => mark.events >= events * share)!) as [
      (typeof marks)[0],
      (typeof marks)[0],
    ];
    return (b.events - a.events) / ((b.at - a.at) / 1_000);
  };
  const count = () => marks.at(-1)!.events;
  return {
    count,
    read: (total: number) => void marks.push({ events: total, at: performance.now() }),
    pace(): Pace {
      if (count() !== events) throw new Error(`${count()} of ${events} events were read`);
      const seconds = (performance.now() - started) / 1_000;
      return { seconds, whole: since(0, 1), firstTenth: since(0, 0.1), lastTenth: since(0.9, 1) };
    },
  };
}
