import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createEventStoreDb } from '../../src/adapters/event-store/eventstoredb/log.ts';
import type {
  EventBatch,
  EventStore,
  SubscribeOptions,
} from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import { connect } from '../../src/adapters/postgres/connect.ts';
import { createLocks } from '../../src/adapters/postgres/locks.ts';
import type { Event, StoredEvent } from '../../src/domain/events/event.ts';
import { RETENTION } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { hashOfLeaf } from '../../src/domain/proof/leaf.ts';
import { createHealth } from '../../src/health.ts';
import {
  CHECKPOINT_CHANNEL,
  CheckpointMoved,
  listCheckpoints,
  loadCheckpoint,
  moveCheckpoint,
  restartCheckpoint,
  verifyCheckpoint,
  WrongLog,
} from '../../src/projections/checkpoint.ts';
import type {
  ApplyingConsumer,
  Consumer,
  ConsumerDeps,
  ConsumerStatus,
  PreparingConsumer,
} from '../../src/projections/consumer.ts';
import { prepareReadModels } from '../../src/projections/read-models.ts';
import { catchUpIfIdle, runConsumer } from '../../src/projections/run-consumer.ts';
import { createLog } from '../support/domain/histories.ts';
import { startFakeEventStoreDb } from '../support/event-store/fake/server.ts';
import { startTcpProxy } from '../support/network/tcp-proxy.ts';
import { loseEventsAfter } from '../support/postgres/lose-events.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const LOG_ID = 'log-1';

describeWithPostgres('a consumer of the log', () => {
  let database: TestDatabase;
  let store: EventStore;
  beforeAll(async () => {
    database = await createTestDatabase();
    await prepareReadModels(database.sql, 'log-1');
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await database.sql`
      create table public.seen (consumer text, stream text, revision integer,
          primary key (consumer, stream, revision))`;
  });
  afterAll(async () => {
    await store?.close();
    await database?.drop();
  });

  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  /** Another process of the installation: it shares only what processes share. */
  function openProcess(): ConsumerDeps {
    const locks = createLocks(database.url, { pollMs: 50 });
    undo.push(() => locks.close());
    return { store, sql: database.sql, locks, logId: LOG_ID, logger: pino({ level: 'silent' }) };
  }

  /** Keeps the events that it gets; a repeated event fails. */
  function consumer(
    name: string,
    check: (event: Event) => void = () => undefined,
  ): ApplyingConsumer {
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
      const {
        stream: _,
        revision: __,
        position: ___,
        ...event
      } = createLog().append(stream, { type: 'test', data: { i } });
      ({ position } = await store.append(stream, seen.at(-1)?.revision ?? 'no_stream', [
        { ...event, id: newId('evt') },
      ]));
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
    (
      await database.sql<
        { count: bigint }[]
      >`select count(*) from public.seen where consumer = ${name}`
    )[0]!.count;

  async function until(what: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await what())) await sleep(20);
  }

  it('reads existing and new events, and resumes where it was', async () => {
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

  it('saves the end of a quiet log that has nothing for it', async () => {
    const position = await append('others-a', 3);
    start(openProcess(), consumer('nothing'));
    await expect
      .poll(() => loadCheckpoint(database.sql, 'work.checkpoints', 'nothing'))
      .toMatchObject({ position });
  });

  it('gets each event once if the log repeats some', async () => {
    await append('repeat-a', 20);
    async function* subscribe(options: SubscribeOptions): AsyncGenerator<EventBatch, void, void> {
      let before: EventBatch['events'] = [];
      for await (const batch of store.subscribe({ ...options, batchSize: 3 })) {
        yield { ...batch, events: [...before, ...batch.events] };
        before = batch.events;
      }
    }
    const { states } = start(
      { ...openProcess(), store: { ...store, subscribe } },
      consumer('repeat'),
    );
    await until(async () => (await seen('repeat')) === 20n);
    expect(states).not.toContain('failed');
  });

  it('begins again when its checkpoint is set back, also in a quiet log', async () => {
    const again = consumer('again');
    await append('again-1', 2);
    start(openProcess(), again);
    await expect.poll(() => seen('again')).toBe(2n);
    await database.sql.begin(async (tx) => {
      await tx`delete from public.seen where consumer = 'again'`;
      await restartCheckpoint(tx, again, LOG_ID);
    });
    await expect.poll(() => seen('again')).toBe(2n);
  });

  it('saves no events that a failover lost after it got them, and gets those that follow', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const started: string[] = [];
    const runs: PreparingConsumer = {
      ...consumer('failover'),
      async prepare(_, events) {
        const [{ stream }] = events as [StoredEvent];
        await gates[started.push(stream) - 1]?.promise;
        return {
          apply: async (tx) => {
            await tx`insert into public.seen values ('failover', ${stream}, 0)`;
          },
        };
      },
    };
    const kept = await append('failover-kept');
    start(openProcess(), runs);
    await until(() => started.length === 1);
    gates[0]?.resolve();
    await until(async () => (await seen('failover')) === 1n);
    await append('failover-lost');
    await until(() => started.length === 2);
    await loseEventsAfter(database.sql, kept);
    await append('failover-other');
    gates[1]?.resolve();
    await until(async () => (await seen('failover')) >= 2n);
    const rows = await database.sql<{ stream: string }[]>`
      select stream from public.seen where consumer = 'failover' order by stream`;
    expect(rows.map(({ stream }) => stream)).toEqual(['failover-kept', 'failover-other']);
  });

  it('saves no position that a failover has taken from the log', async () => {
    const to = (await append('position-1')) + 1n;
    await catchUpIfIdle(openProcess(), consumer('position'));
    const move = { table: 'work.checkpoints', name: 'position', version: 1 } as const;
    await expect(
      moveCheckpoint(database.sql, { ...move, from: to - 1n, to, last: null, isInLog: true }),
    ).rejects.toThrow(CheckpointMoved);
  });

  it('runs in one process at a time, and moves to another after a cut', async () => {
    const processes = [
      start(openProcess(), consumer('single')),
      start(openProcess(), consumer('single')),
    ];
    const active = () => processes.filter(({ states }) => states.at(-1) === 'active');
    await append('single-a', 2);
    await until(async () => (await seen('single')) === 2n);
    await until(() => active().length === 1);
    const [before] = active();
    // Both lose their connection; the one that gets the lock becomes active.
    await database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'waybill locks' and datname = current_database()`;
    await until(() => before!.states.filter((state) => state === 'stand_by').length === 2);
    await append('single-a', 2);
    await until(async () => (await seen('single')) === 4n);
    await until(() => active().length === 1);
    await active()[0]!.stop();
    await append('single-a');
    await until(async () => (await seen('single')) === 5n);
  });

  it('gives up a transaction without an answer, so another process continues', async () => {
    const { hostname, port } = new URL(database.url);
    const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    undo.push(() => proxy.close());
    const url = new URL(database.url);
    url.host = `${proxy.host}:${proxy.port}`;
    const sql = connect(url.href, { answerWithinMs: 500 });
    undo.push(() => sql.end({ timeout: 1 }));
    let frozen = false;
    const freezing: ApplyingConsumer = {
      ...consumer('silent'),
      async apply(tx, events) {
        if (!frozen) proxy.stall(true);
        frozen = true;
        await consumer('silent').apply(tx, events);
      },
    };
    const first = start({ ...openProcess(), sql }, freezing);
    await until(() => first.states.at(-1) === 'active' || first.states.at(-1) === 'stand_by');
    await append('silent-a', 2);
    await until(() => first.states.at(-1) === 'failed');
    const second = start(openProcess(), consumer('silent'));
    await until(() => second.states.at(-1) === 'active');
    await until(async () => (await seen('silent')) === 2n);
    proxy.stall(false);
    await append('silent-a', 2);
    await until(async () => (await seen('silent')) === 4n);
    expect(first.states.at(-1)).not.toBe('active');
  });

  it('is not shown as active after it lost its lock, while its transaction waits', async () => {
    let lose: () => void = () => undefined;
    const applying = new Promise<void>((resolve) => {
      lose = resolve;
    });
    let letGo: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const slow: ApplyingConsumer = {
      ...consumer('slow'),
      async apply() {
        lose();
        await held;
      },
    };
    const deps = openProcess();
    const running = start(deps, slow);
    await append('slow-a');
    await applying;
    await database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'waybill locks' and datname = current_database()`;
    await until(() => running.states.at(-1) === 'failed');
    expect(await running.check()).toEqual({
      ok: false,
      detail: 'the connection that held the lock was lost',
    });
    letGo();
    await until(() => running.states.at(-1) === 'active');
  });

  it('stops at an event that it cannot fold, logs it, and continues after a fix', async () => {
    let fixed = false;
    let failures = 0;
    const running = start(
      openProcess(),
      consumer('loud', ({ data }) => {
        if ((data as { i: number }).i !== 1 || fixed) return;
        failures++;
        throw new Error('event evt_1 is no good');
      }),
    );
    await append('loud-a', 2);
    await until(() => failures >= 2);
    expect(await running.check()).toEqual({ ok: false, detail: 'event evt_1 is no good' });
    fixed = true;
    await until(async () => (await seen('loud')) === 2n);
    await until(() => running.states.at(-1) === 'active');
    // Between the attempts it never reported success.
    expect(running.states.slice(running.states.indexOf('failed'))).toEqual(['failed', 'active']);
  });

  it.each([
    ['ECONNREFUSED', 'a store does not answer: the log of the service says why'],
    ['23505', 'an unexpected error: the log of the service has it'],
  ])('shows no text of a store to everybody: %s', async (code, detail) => {
    const text = 'connect ECONNREFUSED 10.0.0.5:5432';
    const running = start(
      openProcess(),
      consumer(`store-${code}`, () => {
        throw Object.assign(new Error(text), { code });
      }),
    );
    await append(`store-${code}-a`);
    await until(() => running.states.at(-1) === 'failed');
    expect(await running.check()).toEqual({ ok: false, detail });
  });

  describe('that prepares ahead', () => {
    /** Keeps what it prepares and saves, in order. `ready` says when a batch may be saved. */
    function preparing(name: string, ready: (revision: number) => Promise<void>) {
      const steps: string[] = [];
      const runs: PreparingConsumer = {
        ...consumer(name),
        batchSize: 1,
        async prepare(_, events) {
          const { revision } = events[0] as StoredEvent;
          steps.push(`prepare ${revision}`);
          return {
            ahead: true,
            ready: ready(revision),
            apply: async (tx) => {
              await tx`insert into public.seen values (${name}, ${name}, ${revision})`;
            },
            afterSave: (saved) => steps.push(`${saved ? 'saved' : 'lost'} ${revision}`),
          };
        },
      };
      return { steps, runs };
    }

    it('prepares one batch while it saves another, and saves them in order', async () => {
      await append('ahead-a', 3);
      const { promise, resolve } = Promise.withResolvers<void>();
      const { steps, runs } = preparing('ahead', (n) => (n === 0 ? promise : Promise.resolve()));
      const { stop } = start(openProcess(), runs);
      await until(() => steps.length === 2);
      await sleep(100);
      expect(steps).toEqual(['prepare 0', 'prepare 1']);
      resolve();
      await until(async () => (await seen('ahead')) === 3n);
      await stop();
      expect(steps.filter((step) => step.startsWith('saved'))).toEqual([
        'saved 0',
        'saved 1',
        'saved 2',
      ]);
    });

    it('loses what it prepared with a batch that it cannot save, and prepares it again', async () => {
      await append('again-a', 2);
      await database.sql`insert into public.seen values ('again', 'again', 0)`;
      const isPrepared = Promise.withResolvers<void>();
      const { steps, runs } = preparing('again', async (revision) => {
        if (revision === 1) isPrepared.resolve();
        await isPrepared.promise;
      });
      const { states } = start(openProcess(), runs);
      await until(() => states.includes('failed'));
      expect(steps).toEqual(['prepare 0', 'prepare 1', 'lost 0', 'lost 1']);
      await database.sql`delete from public.seen where consumer = 'again'`;
      await until(async () => (await seen('again')) === 2n);
      expect(steps.slice(4).toSorted()).toEqual(['prepare 0', 'prepare 1', 'saved 0', 'saved 1']);
    });
  });

  it('catches up in the caller, unless a process runs it', async () => {
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

  it('notifies of the checkpoints of read models, for which requests wait', async () => {
    const notices: string[] = [];
    await database.sql.listen(CHECKPOINT_CHANNEL, (notice) => notices.push(notice));
    const deps = openProcess();
    await append('manager-a');
    await catchUpIfIdle(deps, consumer('manager'));
    const position = await append('model-a');
    await catchUpIfIdle(deps, { ...consumer('model'), table: 'read.checkpoints' });
    expect(await seen('manager')).toBe(1n);
    await database.sql`select pg_notify(${CHECKPOINT_CHANNEL}, 'end')`;
    await until(() => notices.includes('end'));
    expect(notices).toEqual([`model:${position}`, 'end']);
  });

  it('looks once for what left the log, at its first batch', async () => {
    let looks = 0;
    const watched: EventStore = {
      ...store,
      read(stream, ...range) {
        if (stream === RETENTION) looks++;
        return store.read(stream, ...range);
      },
    };
    const weaving = consumer('weave');
    start(
      { ...openProcess(), store: watched },
      {
        ...weaving,
        async apply(tx, events, removed) {
          expect(await removed?.weave(0, events, hashOfLeaf)).toHaveLength(events.length);
          await weaving.apply(tx, events);
        },
      },
    );
    for (const count of [1, 2, 3]) {
      await append('weave-1');
      await expect.poll(async () => Number(await seen('weave'))).toBe(count);
    }
    expect(looks).toBe(1);
  });

  it('moves a checkpoint back that is beyond the end of the log, and continues', async () => {
    await append('lie-a', 2);
    const deps = openProcess();
    await catchUpIfIdle(deps, consumer('lie'));
    // An older version stored this after it trusted a position that an EventStoreDB does not have.
    const lie = 2n ** 63n - 1n;
    await database.sql`update work.checkpoints set position = ${lie} where name = 'lie'`;
    await append('lie-a', 2);
    await catchUpIfIdle(deps, consumer('lie'));
    expect(await seen('lie')).toBe(4n);
    const checkpoint = (await loadCheckpoint(database.sql, 'work.checkpoints', 'lie'))!;
    expect(checkpoint.position).toBe((await store.read('lie-a')).at(-1)!.position);
    expect(checkpoint.position).toBeLessThanOrEqual((await store.head())!);
  });

  it('rejects another log, and an older state of its own log, and names the remedy', async () => {
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
      const restored = verifyCheckpoint(
        store,
        'foreign',
        { ...checkpoint, event: { ...checkpoint.event!, ...lost } },
        LOG_ID,
      );
      await expect(restored).rejects.toThrow(
        /an older copy of the log was restored.*waybill projections rebuild foreign/,
      );
    }
  });

  it('ends when an older copy takes the place of the log in an EventStoreDB', async () => {
    const server = await startFakeEventStoreDb();
    undo.push(async () => server.close());
    const restored = createEventStoreDb({ url: server.url, prefix: 'test_', staleMs: 200 });
    undo.push(() => restored.close());
    await append('restored-a', 3);
    const copied = (await store.read('restored-a')).map(({ position: _, ...event }) => event);
    await restored.append('restored-a', 'no_stream', copied.slice(0, 1));
    const older = [...server.log.records];
    await restored.append('restored-a', 0, copied.slice(1));

    const running = start({ ...openProcess(), store: restored }, consumer('restored'));
    await expect.poll(() => seen('restored')).toBe(3n);
    server.log.replace(older);
    await server.disconnect();
    await expect(running.done).rejects.toThrow(WrongLog);
    await expect(running.done).rejects.toThrow('an older copy of the log was restored');
  });

  it('rejects no log of an EventStoreDB whose former leader answers for a moment', async () => {
    await append('stale-a', 1);
    const deps = openProcess();
    await catchUpIfIdle(deps, consumer('stale'));
    const checkpoint = (await loadCheckpoint(database.sql, 'work.checkpoints', 'stale'))!;
    let answers = 0;
    const stale: EventStore = {
      ...store,
      staleMs: 10_000,
      read: async (...read) => (answers++ === 0 ? [] : store.read(...read)),
    };
    await verifyCheckpoint(stale, 'stale', checkpoint, LOG_ID);
    expect(answers).toBe(2);
  });
});
