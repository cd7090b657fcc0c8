import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { createPostgresLog } from '../src/adapters/event-store/postgres-log.ts';
import { connect } from '../src/adapters/postgres/connect.ts';
import { addWebhook, appendTransfer } from '../test/support/webhooks.ts';
import { alternate } from './support/alternate.ts';
import type { Bench } from './support/bench.ts';
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
/** Rounds for each run: in a short one a hiccup of the machine is all of its p99, and the median passes over it. */
const STEADY_ROUNDS = 3;
const RECEIVERS = 100;
/** Requests at once to one receiver, as the service has them, and to all of many. */
const AT_ONCE = 32;
const AT_ONCE_IN_ALL = 256;

/** Deliveries per second beside bare requests, the way from commit to the first attempt, and what one dead receiver does to others. */
export async function run(bench: Bench): Promise<void> {
  const { only } = bench.options;
  const parts = only.length > 0 ? only : ['one', 'many', 'latency', 'dead'];
  const postgres = await startPostgres(bench);
  if (parts.includes('one')) await measureThroughput(bench, postgres, 1);
  if (parts.includes('many')) await measureThroughput(bench, postgres, RECEIVERS);
  if (parts.includes('latency')) await measureLatency(bench, postgres);
  if (parts.includes('dead')) await measureDeadReceiver(bench, postgres);
}

interface Setting {
  receivers: Receivers;
  start(): Promise<RunningService>;
  /** Appends one event that one webhook is told of; gives its id and when it was committed. */
  happen(receiver: number): Promise<{ eventId: string; committedAt: number }>;
  bodies(): Promise<{ receiver: number; body: string }[]>;
  /** Returns when every attempt is recorded. */
  recorded(): Promise<void>;
}

/** A database with a webhook for each receiver, each of an account of its own. */
async function prepare(bench: Bench, postgres: BenchPostgres, name: string, count: number): Promise<Setting> {
  const databaseUrl = await postgres.createDatabase(name);
  const receivers = await startReceivers(bench, count);
  const settings = { WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8', WAYBILL_MASTER_KEY: randomBytes(32).toString('base64') };
  const account = (receiver: number) => `acc_${receiver}`;
  const start = (options: Partial<ServiceOptions> = {}) =>
    startService(bench, { databaseUrl, endpoints: [], roles: 'api,webhooks', settings, ...options });
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
  const store = createPostgresLog({ sql, prefix: 'waybill_' });
  bench.defer(() => store.close());
  return {
    receivers,
    start,
    async happen(receiver) {
      const { eventIds } = await appendTransfer(store, [], { account_id: account(receiver) });
      return { eventId: eventIds[0] as string, committedAt: performance.timeOrigin + performance.now() };
    },
    async recorded() {
      while ((await sql`select from work.deliveries where status = 'pending' limit 1`).length > 0) await sleep(20);
    },
    async bodies() {
      const rows = await sql<
        { account_id: string; body: string }[]
      >`select account_id, body from work.deliveries order by event_id limit ${BACKLOG}`;
      return rows.map(({ account_id, body }) => ({ receiver: Number(account_id.slice('acc_'.length)), body }));
    },
  };
}

/** What came of one round; CPU in milliseconds for each delivery, null where this system does not tell. */
interface Round {
  perSecond: number;
  senderCpu: number | null;
  postgresCpu: number | null;
}

async function measureThroughput(bench: Bench, postgres: BenchPostgres, count: number): Promise<void> {
  const { runs, scale, profile } = bench.options;
  const setting = await prepare(bench, postgres, `webhooks_${count}`, count);
  const { receivers } = setting;
  const backlog = Math.ceil(BACKLOG * scale);
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
      // It has run for a while, as the bare one has, and finds all of it at once.
      process.kill(service.pid, 'SIGSTOP');
      await Promise.all(Array.from({ length: backlog }, (_, n) => setting.happen(n % count)));
      const before = [cpuSeconds(service.pid), postgres.cpuSeconds()] as const;
      process.kill(service.pid, 'SIGCONT');
      const perSecond = await rate();
      await setting.recorded();
      const after = [cpuSeconds(service.pid), postgres.cpuSeconds()] as const;
      return { perSecond, senderCpu: each(minus(after[0], before[0])), postgresCpu: each(minus(after[1], before[1])) };
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
    `${backlog} deliveries to ${count === 1 ? 'one receiver' : `${count} receivers`}, all waiting at the start, medians of ${runs} runs, ${loadAverage()}`,
    ['sender', 'per second', 'of bare', 'CPU ms each', 'of Postgres'],
    [
      ['bare undici, no signature, nothing kept', bare.perSecond, null, bare.senderCpu, null],
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
  const of = (key: 'senderCpu' | 'postgresCpu') => {
    const known = rounds.map((round) => round[key]).filter((ms) => ms !== null);
    return known.length > 0 ? median(known) : null;
  };
  return { perSecond: median(rounds.map(({ perSecond }) => perSecond)), senderCpu: of('senderCpu'), postgresCpu: of('postgresCpu') };
}

/** The same requests without anything of ours. */
async function postAll(bodies: { receiver: number; body: string }[], urls: string[], atOnce: number): Promise<void> {
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
  const latencies = await latenciesOf(setting, count, 1, 40);
  await service.stop();
  printTable(
    `From the commit of an event to its arrival, one at a time, idle service: ${latencies.length} of them, in milliseconds`,
    ['median', 'p99', 'least', 'most'],
    [[median(latencies), percentile(latencies, 99), Math.min(...latencies), Math.max(...latencies)]],
  );
}

/** How long each of so many events took to its arrival. They happen at a steady pace, for the receivers in turn. */
async function latenciesOf({ receivers, happen }: Setting, count: number, among: number, everyMs: number, leftOut = -1): Promise<number[]> {
  await receivers.arrivals();
  const committed = new Map<string, number>();
  const appends: Promise<unknown>[] = [];
  let expected = 0;
  // The first few open connections.
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
    for (const { receiver, eventId, at } of await receivers.arrivals()) if (receiver !== leftOut) arrived.set(eventId, at);
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
  // What differs between the two where nothing hangs is the noise of the machine.
  const rounds = runs * STEADY_ROUNDS;
  const results = await alternate(rounds, {
    answers: () => measure(null),
    'answers, once more': () => measure(null),
    hangs: () => measure(0),
  });
  await service.stop();
  const p99s = (latencies: number[][]) => latencies.map((round) => percentile(round, 99));
  const alone = median(p99s(results.answers ?? []));
  printTable(
    `From commit to arrival at 99 receivers of ${RECEIVERS}, 250 events a second, in milliseconds, medians of ${rounds} rounds, ${loadAverage()}`,
    ['the hundredth', 'arrivals', 'median', 'p99', 'against the first', 'p99 of each round'],
    Object.entries(results).map(([name, latencies]) => {
      const p99 = median(p99s(latencies));
      const each = p99s(latencies)
        .map((one) => one.toFixed(0))
        .join(' ');
      return [name, latencies.flat().length, median(latencies.map(median)), p99, ratio(p99, alone), each];
    }),
  );
}
