import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { connect } from '../src/adapters/postgres/connect.ts';
import { addWebhook, appendTransfer } from '../test/support/webhooks/webhooks.ts';
import { alternate } from './support/alternate.ts';
import type { Bench } from './support/bench.ts';
import { openLog } from './support/event-log.ts';
import { bareArrivals } from './support/eventstoredb.ts';
import { loadAverage } from './support/machine.ts';
import { type BenchPostgres, startPostgres } from './support/postgres.ts';
import { printProfile, printStatements } from './support/profile.ts';
import { type Receivers, startReceivers } from './support/receivers.ts';
import { type RunningService, type ServiceOptions, startService } from './support/service.ts';
import { median, percentile } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';
import { cpuSeconds } from './support/usage.ts';

const BACKLOG = 10_000;
const ONE_BY_ONE = 200;
const STEADY = 1_000;
/**
 * Rounds for each run. One hiccup of the machine is the whole p99 of a short round; the median
 * skips it.
 */
const STEADY_ROUNDS = 3;
const RECEIVERS = 100;
/**
 * A failing receiver fails one of `oneIn` requests, and answers as late as one across the internet.
 */
const FAILING = { oneIn: 10, answerMs: 100, backlog: 2_000 };
/**
 * Concurrent requests of the bare sender: to one receiver, as the service does, and to many
 * together.
 */
const AT_ONCE = 32;
const AT_ONCE_IN_ALL = 256;

/**
 * Measures deliveries a second beside bare requests, the time from commit to arrival, and the
 * effect of one dead receiver on the others.
 */
export async function run(bench: Bench): Promise<void> {
  const { only } = bench.options;
  const parts = only.length > 0 ? only : ['one', 'many', 'failing', 'latency', 'dead'];
  const postgres = await startPostgres(bench);
  if (parts.includes('one')) await measureThroughput(bench, postgres, 1);
  if (parts.includes('many')) await measureThroughput(bench, postgres, RECEIVERS);
  if (parts.includes('failing')) await measureThroughput(bench, postgres, 1, FAILING);
  if (parts.includes('latency')) await measureLatency(bench, postgres);
  if (parts.includes('dead')) await measureDeadReceiver(bench, postgres);
}

interface Setting {
  receivers: Receivers;
  start(): Promise<RunningService>;
  /**
   * Appends one event to which one webhook subscribes. Returns its id and the time of its commit.
   */
  happen(receiver: number): Promise<{ eventId: string; committedAt: number }>;
  bodies(): Promise<{ receiver: number; body: string }[]>;
  /** Resolves when every first attempt is recorded. */
  recorded(): Promise<void>;
}

/** Creates a database with a webhook for each receiver, each in its own account. */
async function prepare(
  bench: Bench,
  postgres: BenchPostgres,
  name: string,
  count: number,
): Promise<Setting> {
  const databaseUrl = await postgres.createDatabase(name);
  const receivers = await startReceivers(bench, count);
  const settings = {
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
    // A retry of one round must not count in the next.
    WAYBILL_WEBHOOK_RETRY_DELAYS: '1h',
  };
  const account = (receiver: number) => `acc_${receiver}`;
  const start = (options: Partial<ServiceOptions> = {}) =>
    startService(bench, {
      databaseUrl,
      endpoints: [],
      roles: 'api,webhooks',
      settings,
      ...options,
    });
  const configured = await start({
    prepare: async (installation) => {
      for (const [receiver, url] of receivers.urls.entries()) {
        await addWebhook(installation, url, ['transfer.created'], { accountId: account(receiver) });
      }
    },
  });
  await configured.stop();
  const sql = connect(databaseUrl);
  bench.defer(() => sql.end({ timeout: 1 }));
  const store = openLog(bench, databaseUrl, sql);
  return {
    receivers,
    start,
    async happen(receiver) {
      const { eventIds } = await appendTransfer(store, [], { account_id: account(receiver) });
      return {
        eventId: eventIds[0] as string,
        committedAt: performance.timeOrigin + performance.now(),
      };
    },
    async recorded() {
      const waiting = () =>
        sql`select from work.deliveries where status = 'pending' and attempts = 0 limit 1`;
      while ((await waiting()).length > 0) await sleep(20);
    },
    async bodies() {
      const rows = await sql<
        { account_id: string; body: string }[]
      >`select account_id, body from work.deliveries order by event_id limit ${BACKLOG}`;
      return rows.map(({ account_id, body }) => ({
        receiver: Number(account_id.slice('acc_'.length)),
        body,
      }));
    },
  };
}

/**
 * The figures of a round. CPU is in milliseconds for each delivery; null if the system has no
 * figure.
 */
interface Round {
  perSecond: number;
  senderCpu: number | null;
  postgresCpu: number | null;
}

async function measureThroughput(
  bench: Bench,
  postgres: BenchPostgres,
  count: number,
  failing: typeof FAILING | null = null,
): Promise<void> {
  const { runs, scale, profile } = bench.options;
  const database = `webhooks_${count}${failing ? '_failing' : ''}`;
  const setting = await prepare(bench, postgres, database, count);
  const { receivers } = setting;
  if (failing) await receivers.fail(failing.oneIn, failing.answerMs);
  const backlog = Math.ceil((failing?.backlog ?? BACKLOG) * scale);
  const rate = async () => {
    while ((await receivers.count()) < backlog) await sleep(50);
    const times = (await receivers.arrivals()).map(({ at }) => at);
    return ((times.length - 1) / (Math.max(...times) - Math.min(...times))) * 1_000;
  };
  const each = (seconds: number | null) => (seconds === null ? null : (seconds * 1_000) / backlog);
  const service = await setting.start();
  const logged = postgres.log === null ? 0 : statSync(postgres.log).size;
  const results = await alternate<Round>(runs, {
    async service() {
      // The service stays warm, as the bare sender is, and finds all events at once.
      process.kill(service.pid, 'SIGSTOP');
      await Promise.all(Array.from({ length: backlog }, (_, n) => setting.happen(n % count)));
      const before = [cpuSeconds(service.pid), postgres.cpuSeconds()] as const;
      process.kill(service.pid, 'SIGCONT');
      const perSecond = await rate();
      await setting.recorded();
      const after = [cpuSeconds(service.pid), postgres.cpuSeconds()] as const;
      return {
        perSecond,
        senderCpu: each(minus(after[0], before[0])),
        postgresCpu: each(minus(after[1], before[1])),
      };
    },
    async bare() {
      const bodies = (await setting.bodies()).slice(0, backlog);
      const before = process.cpuUsage();
      await postAll(bodies, receivers.urls, count === 1 ? AT_ONCE : AT_ONCE_IN_ALL);
      const { user, system } = process.cpuUsage(before);
      return { perSecond: await rate(), senderCpu: each((user + system) / 1e6), postgresCpu: null };
    },
  });
  await service.stop();
  if (profile) printProfile(service.pid);
  if (profile) printStatements(postgres, logged, backlog * (runs + 1), 'delivery');
  const [ours, bare] = [mediansOf(results.service ?? []), mediansOf(results.bare ?? [])];
  printTable(
    `${backlog} deliveries to ` +
      `${count === 1 ? 'one receiver' : `${count} receivers`}${failing ? ` that fails one request in ${failing.oneIn} and answers in ${failing.answerMs} ms` : ''}, ` +
      `all waiting at the start, medians of ${runs} runs, ${loadAverage()}`,
    ['sender', 'per second', 'of bare', 'CPU ms each', 'of Postgres'],
    [
      ['bare undici, no signature, nothing stored', bare.perSecond, null, bare.senderCpu, null],
      [
        'waybill, from the log to the recorded attempt',
        ours.perSecond,
        ratio(ours.perSecond, bare.perSecond),
        ours.senderCpu,
        ours.postgresCpu,
      ],
    ],
  );
}

function minus(all: number | null, part: number | null): number | null {
  return all === null || part === null ? null : all - part;
}

function mediansOf(rounds: Round[]): Round {
  const medianCpu = (key: 'senderCpu' | 'postgresCpu') => {
    const known = rounds.map((round) => round[key]).filter((ms) => ms !== null);
    return known.length > 0 ? median(known) : null;
  };
  return {
    perSecond: median(rounds.map(({ perSecond }) => perSecond)),
    senderCpu: medianCpu('senderCpu'),
    postgresCpu: medianCpu('postgresCpu'),
  };
}

/** Sends the same requests with undici alone. */
async function postAll(
  bodies: { receiver: number; body: string }[],
  urls: string[],
  atOnce: number,
): Promise<void> {
  const agent = new Agent({ pipelining: 1 });
  const left = bodies.values();
  const worker = async () => {
    for (const { receiver, body } of left) {
      const { origin, pathname } = new URL(urls[receiver] as string);
      const response = await agent.request({
        origin,
        path: pathname,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      await response.body.dump();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  await agent.close();
}

async function measureLatency(bench: Bench, postgres: BenchPostgres): Promise<void> {
  const setting = await prepare(bench, postgres, 'webhooks_latency', 1);
  const service = await setting.start();
  const count = Math.ceil(ONE_BY_ONE * bench.options.scale);
  const ours = { waybill: await latenciesOf(setting, count, 1, 40) };
  await service.stop();
  const url = process.env.EVENTSTORE_URL;
  const bare = url ? { 'bare subscription': await bareArrivals(bench, url, count, 40) } : {};
  printTable(
    `From the commit of an event to its arrival, one at a time, idle service: ${count} of ` +
      'them, in milliseconds',
    ['who', 'median', 'p99', 'min', 'max'],
    Object.entries({ ...ours, ...bare }).map(([who, latencies]) => [
      who,
      median(latencies),
      percentile(latencies, 99),
      Math.min(...latencies),
      Math.max(...latencies),
    ]),
  );
}

/**
 * Returns the milliseconds from commit to arrival of `count` events, appended at a steady pace for
 * `among` receivers in turn. The receiver `leftOut` does not count.
 */
async function latenciesOf(
  { receivers, happen }: Setting,
  count: number,
  among: number,
  everyMs: number,
  leftOut = -1,
): Promise<number[]> {
  await receivers.arrivals();
  const committed = new Map<string, number>();
  const appends: Promise<unknown>[] = [];
  let expected = 0;
  // The first events open the connections, so they do not count.
  for (let n = -2 * among; n < count; n++) {
    const receiver = (n + 2 * among) % among;
    appends.push(
      happen(receiver).then(({ eventId, committedAt }) => {
        if (n >= 0 && receiver !== leftOut) committed.set(eventId, committedAt);
      }),
    );
    if (receiver !== leftOut) expected++;
    await sleep(everyMs);
  }
  await Promise.all(appends);
  const arrived = new Map<string, number>();
  while (arrived.size < expected) {
    for (const { receiver, eventId, at } of await receivers.arrivals())
      if (receiver !== leftOut) arrived.set(eventId, at);
    await sleep(20);
  }
  return [...committed].map(([eventId, at]) => (arrived.get(eventId) as number) - at);
}

async function measureDeadReceiver(bench: Bench, postgres: BenchPostgres): Promise<void> {
  const { runs, scale } = bench.options;
  const setting = await prepare(bench, postgres, 'webhooks_dead', RECEIVERS);
  const service = await setting.start();
  const count = Math.ceil(STEADY * scale);
  const measure = async (dead: number | null) => {
    await setting.receivers.hang(dead);
    return latenciesOf(setting, count, RECEIVERS, 4, 0);
  };
  // The difference between the two series without a hanging receiver is the noise of the machine.
  const rounds = runs * STEADY_ROUNDS;
  const results = await alternate(rounds, {
    answers: () => measure(null),
    'answers, again': () => measure(null),
    hangs: () => measure(0),
  });
  await service.stop();
  const p99s = (latencies: number[][]) => latencies.map((round) => percentile(round, 99));
  const alone = median(p99s(results.answers ?? []));
  printTable(
    `From commit to arrival at 99 receivers of ${RECEIVERS}, 250 events a second, in ` +
      `milliseconds, medians of ${rounds} rounds, ${loadAverage()}`,
    ['the hundredth', 'arrivals', 'median', 'p99', 'ratio to the first', 'p99 of each round'],
    Object.entries(results).map(([name, latencies]) => {
      const p99 = median(p99s(latencies));
      const each = p99s(latencies)
        .map((one) => one.toFixed(0))
        .join(' ');
      return [
        name,
        latencies.flat().length,
        median(latencies.map(median)),
        p99,
        ratio(p99, alone),
        each,
      ];
    }),
  );
}
