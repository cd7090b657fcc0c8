import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres-log.ts';
import { createLocks } from '../../src/adapters/postgres/locks.ts';
import type { Event } from '../../src/domain/event.ts';
import { newId } from '../../src/domain/ids.ts';
import { createHealth } from '../../src/health.ts';
import { listCheckpoints, loadCheckpoint, verifyCheckpoint, WrongLog } from '../../src/projections/checkpoint.ts';
import { type Consumer, type ConsumerDeps, type ConsumerStatus, catchUpIfIdle, runConsumer } from '../../src/projections/consumer.ts';
import { prepareReadModels } from '../../src/projections/read-models.ts';
import { createLog } from '../support/histories.ts';
import { createTestDatabase, describeWithPostgres, type TestDatabase } from '../support/postgres.ts';

const LOG_ID = 'log-1';

describeWithPostgres('a consumer of the log', () => {
  let database: TestDatabase;
  let store: EventStore;
  beforeAll(async () => {
    database = await createTestDatabase();
    await prepareReadModels(database.sql, 'log-1');
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await database.sql`create table public.seen (consumer text, stream text, revision integer, primary key (consumer, stream, revision))`;
  });
  afterAll(async () => {
    await store?.close();
    await database?.drop();
  });

  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  /** Another process of the installation: only what it shares is shared. */
  function openProcess(): ConsumerDeps {
    const locks = createLocks(database.url, { pollMs: 50 });
    undo.push(() => locks.close());
    return { store, sql: database.sql, locks, logId: LOG_ID, logger: pino({ level: 'silent' }) };
  }

  /** Keeps what it is given; an event given twice fails. */
  function consumer(name: string, check: (event: Event) => void = () => undefined): Consumer {
    return {
      name,
      table: 'work.checkpoints',
      version: 1,
      streams: [`${name}-`],
      async apply(tx, events) {
        for (const event of events) {
          check(event);
          await tx`insert into public.seen values (${name}, ${event.stream}, ${event.revision})`;
        }
      },
    };
  }

  async function append(stream: string, count = 1): Promise<bigint> {
    let position = 0n;
    for (let i = 0; i < count; i++) {
      const seen = await store.read(stream);
      const { stream: _, revision: __, position: ___, ...event } = createLog().append(stream, { type: 'test', data: { i } });
      ({ position } = await store.append(stream, seen.at(-1)?.revision ?? 'no_stream', [{ ...event, id: newId('evt') }]));
    }
    return position;
  }

  function start(deps: ConsumerDeps, runs: Consumer) {
    const stopping = new AbortController();
    const states: ConsumerStatus['state'][] = [];
    const health = createHealth({ ...deps, waiter: { lateSince: () => null } as never });
    const report = health.report(runs.name);
    const done = runConsumer(deps, runs, stopping.signal, (status) => {
      if (states.at(-1) !== status.state) states.push(status.state);
      report(status);
    });
    done.catch(() => undefined);
    const stop = () => {
      stopping.abort();
      return done;
    };
    undo.push(() => stop().catch(() => undefined));
    return { states, stop, done, check: async () => (await health.ready()).checks[runs.name] };
  }

  const seen = async (name: string) =>
    (await database.sql<{ count: bigint }[]>`select count(*) from public.seen where consumer = ${name}`)[0]!.count;

  async function until(what: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await what())) await sleep(20);
  }

  it('reads what is there and what comes, and goes on where it was', async () => {
    await append('follow-a', 3);
    const first = start(openProcess(), consumer('follow'));
    await until(async () => (await seen('follow')) === 3n);
    await append('follow-a', 2);
    await until(async () => (await seen('follow')) === 5n);
    await first.stop();
    const position = await append('follow-b', 2);
    start(openProcess(), consumer('follow'));
    await until(async () => (await seen('follow')) === 7n);
    expect(await loadCheckpoint(database.sql, 'work.checkpoints', 'follow')).toMatchObject({
      position,
      event: { stream: 'follow-b', revision: 1 },
    });
    expect((await listCheckpoints(database.sql)).map(({ name }) => name)).toContain('follow');
  });

  it('is one at a time; another takes over when the connection of the active one is cut', async () => {
    const processes = [start(openProcess(), consumer('single')), start(openProcess(), consumer('single'))];
    const active = () => processes.filter(({ states }) => states.at(-1) === 'active');
    await append('single-a', 2);
    await until(async () => (await seen('single')) === 2n);
    await until(() => active().length === 1);
    const [before] = active();
    // Both lose their connection; whoever gets the lock then is the active one.
    await database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'waybill locks' and datname = current_database()`;
    await until(() => before!.states.filter((state) => state === 'stand_by').length === 2);
    await append('single-a', 2);
    await until(async () => (await seen('single')) === 4n);
    await until(() => active().length === 1);
    await active()[0]!.stop();
    await append('single-a');
    await until(async () => (await seen('single')) === 5n);
  });

  it('stops loudly at an event that it can not take, and goes on when that is mended', async () => {
    let failures = 0;
    const running = start(
      openProcess(),
      consumer('loud', ({ data }) => {
        if ((data as { i: number }).i === 1 && failures++ < 2) throw new Error('event evt_1 is no good');
      }),
    );
    await append('loud-a', 2);
    await until(() => running.states.at(-1) === 'failed');
    expect(await running.check()).toEqual({ ok: false, detail: 'event evt_1 is no good' });
    await until(async () => (await seen('loud')) === 2n);
    await until(() => running.states.at(-1) === 'active');
    // Between the attempts it never said that all was well.
    expect(running.states.slice(running.states.indexOf('failed'))).toEqual(['failed', 'active']);
  });

  it('catches up by itself where no process runs it, and leaves it to one that does', async () => {
    await append('idle-a', 2);
    const here = openProcess();
    await catchUpIfIdle(here, consumer('idle'));
    expect(await seen('idle')).toBe(2n);
    await catchUpIfIdle(here, consumer('idle'));

    const elsewhere = openProcess();
    const held = await elsewhere.locks.acquire('consumer:idle', new AbortController().signal);
    await append('idle-a');
    await catchUpIfIdle(here, consumer('idle'));
    expect(await seen('idle')).toBe(2n);
    await held.release();
    await catchUpIfIdle(here, consumer('idle'));
    expect(await seen('idle')).toBe(3n);
  });

  it('refuses another log, and an older state of its own, naming the remedy', async () => {
    await append('foreign-a', 2);
    const deps = openProcess();
    await catchUpIfIdle(deps, consumer('foreign'));

    const other = start({ ...deps, logId: 'log-2' }, consumer('foreign'));
    await expect(other.done).rejects.toThrow(WrongLog);
    await expect(other.done).rejects.toThrow('belongs to log log-1, and this is log log-2');
    await expect(other.done).rejects.toThrow('waybill projections rebuild foreign');

    const checkpoint = (await loadCheckpoint(database.sql, 'work.checkpoints', 'foreign'))!;
    await verifyCheckpoint(store, 'foreign', checkpoint, LOG_ID);
    for (const lost of [{ revision: 7 }, { id: 'evt_other' }, { stream: 'foreign-gone' }]) {
      const restored = verifyCheckpoint(store, 'foreign', { ...checkpoint, event: { ...checkpoint.event!, ...lost } }, LOG_ID);
      await expect(restored).rejects.toThrow(/an older copy of the log was restored.*waybill projections rebuild foreign/);
    }
  });
});
