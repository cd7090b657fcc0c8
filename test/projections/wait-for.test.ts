import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { createKey } from '../../src/commands/keys.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { type Installation, openInstallation } from '../../src/installation.ts';
import { listKeys } from '../../src/projections/catalog/queries.ts';
import { lockOf } from '../../src/projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../src/projections/read-models.ts';
import { runConsumer } from '../../src/projections/run-consumer.ts';
import { createProjectionWaiter } from '../../src/projections/wait-for.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

describeWithPostgres('waiting for a projection', () => {
  let here: TestInstallation;
  let elsewhere: Installation;
  beforeAll(async () => {
    here = await openTestInstallation();
    elsewhere = await openInstallation(here.config, pino({ level: 'silent' }));
  });
  afterAll(async () => {
    await elsewhere?.close();
    await here?.close();
  });
  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  /** Appends an event without waiting. Returns its id and its position. */
  async function write(): Promise<{ id: string; position: bigint }> {
    let position = 0n;
    const waitFor = (_: string, at: bigint | null) => {
      position = at as bigint;
      return Promise.resolve(true);
    };
    const { id } = await createKey(
      { ...here.commands, waitFor },
      keyRequest.parse({ name: 'ci', scopes: ['admin'] }),
      CAUSE,
      {
        allowNever: false,
      },
    );
    return { id, position };
  }
  const shown = async (id: string) =>
    (await listKeys(here.sql)).some(({ key_id }) => key_id === id);

  function project(installation: Installation): void {
    const stopping = new AbortController();
    const running = runConsumer(
      installation,
      projectionConsumer(PROJECTIONS.catalog),
      stopping.signal,
      () => undefined,
    );
    undo.push(() => {
      stopping.abort();
      return running;
    });
  }

  it('ends at once without a position', async () => {
    expect(await here.waiter.waitFor('catalog', null)).toBe(true);
    expect(await here.waiter.waitFor('catalog', 0n)).toBe(true);
  });

  it('ends as soon as a consumer of the process reports the position', async () => {
    const head = (await here.store.head()) as bigint;
    const waited = here.waiter.waitFor('transfers', head + 1n);
    here.waiter.advance('transfers', head + 1n);
    expect(await waited).toBe(true);
  });

  it('ends the pause of the consumer, and lets it make none meanwhile', async () => {
    const stopping = new AbortController();
    const { waitFor, pause, advance } = here.waiter;
    const pauseLong = (consumer: string) => pause(consumer, 3_600_000, stopping.signal);
    const head = (await here.store.head()) as bigint;
    const paused = pauseLong('flows');
    void waitFor('flows', head + 1n, false);
    expect(await Promise.race([paused, sleep(50, 'pauses')])).toBe('pauses');
    const other = pauseLong('audit');
    const waited = waitFor('flows', head + 1n);
    await paused;
    await pauseLong('flows');
    advance('flows', head + 1n);
    expect(await waited).toBe(true);
    const again = pauseLong('flows');
    expect(await Promise.race([again, other, sleep(50, 'both pause')])).toBe('both pause');
    stopping.abort();
    await Promise.all([again, other, pauseLong('flows')]);
  });

  it('ignores a position that no log can have', async () => {
    const head = (await here.store.head()) as bigint;
    here.waiter.advance('transfers', 2n ** 64n - 1n);
    const waited = here.waiter.waitFor('transfers', head + 2n);
    expect(await Promise.race([waited, sleep(300, 'waits')])).toBe('waits');
    here.waiter.advance('transfers', head + 2n);
    expect(await waited).toBe(true);
  });

  it('catches up itself if no process runs the projection', async () => {
    const { id, position } = await write();
    expect(await shown(id)).toBe(false);
    expect(await here.waiter.waitFor('catalog', position)).toBe(true);
    expect(await shown(id)).toBe(true);
    expect(await here.waiter.waitFor('catalog', position)).toBe(true);
  });

  it('catches up with the log, or reports that it did not', async () => {
    const { id } = await write();
    expect(await here.waiter.catchUp('catalog')).toBe(true);
    expect(await shown(id)).toBe(true);
    const held = await elsewhere.locks.acquire(lockOf('catalog'), new AbortController().signal);
    undo.push(() => held.release());
    await write();
    expect(await here.waiter.catchUp('catalog')).toBe(false);
  });

  it('catches up with the log as it is at the call, if it grows all the time', async () => {
    const { store } = here;
    const growing: typeof store = {
      ...store,
      async *subscribe(options) {
        await write();
        yield* store.subscribe(options);
      },
    };
    const waiter = createProjectionWaiter({ ...here, sql: here.derived, store: growing });
    undo.push(() => waiter.close());
    const { id } = await write();
    expect(await waiter.catchUp('catalog')).toBe(true);
    expect(await shown(id)).toBe(true);
  });

  it.each(['here', 'elsewhere'])('follows a projector %s', async (where) => {
    project(where === 'here' ? here : elsewhere);
    for (let i = 0; i < 5; i++) {
      const { id, position } = await write();
      expect(await here.waiter.waitFor('catalog', position)).toBe(true);
      expect(await shown(id)).toBe(true);
    }
  });

  it('serves many callers at once', async () => {
    const written = await Promise.all(Array.from({ length: 20 }, write));
    expect(
      await Promise.all(written.map(({ position }) => here.waiter.waitFor('catalog', position))),
    ).toEqual(Array(20).fill(true));
    for (const { id } of written) expect(await shown(id)).toBe(true);
  });

  it('works without notifications', async () => {
    await here.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where query ilike 'listen%' and datname = current_database()`;
    project(elsewhere);
    const { position } = await write();
    expect(await here.waiter.waitFor('catalog', position)).toBe(true);
  });

  it('times out and reports it while the projector makes no progress', async () => {
    const held = await elsewhere.locks.acquire(lockOf('catalog'), new AbortController().signal);
    undo.push(() => held.release());
    const { id, position } = await write();
    expect(here.waiter.lateSince()).toBeNull();
    expect(await here.waiter.waitFor('catalog', position)).toBe(false);
    expect(here.waiter.lateSince()).not.toBeNull();
    const read = here.waiter.waitToRead('catalog', position);
    expect(await Promise.race([read, sleep(1_000, 'waits')])).toBe(false);
    expect(await shown(id)).toBe(false);
    await held.release();
    expect(await here.waiter.waitFor('catalog', position)).toBe(true);
    expect(here.waiter.lateSince()).toBeNull();
  });

  it('times out while the checkpoint is locked, and can be closed', LONG, async () => {
    const { position } = await write();
    const third = await openInstallation(here.config, pino({ level: 'silent' }));
    const { promise: free, resolve: release } = Promise.withResolvers<void>();
    const locked = here.sql.begin(async (tx) => {
      await tx`select from read.checkpoints where name = 'catalog' for update`;
      await free;
    });
    await sleep(50);
    const answer = third.waiter.waitFor('catalog', position);
    expect(await answer).toBe(false);
    release();
    await locked;
    await third.close();
  });
});

describeWithPostgres(
  'waiting for a projection whose checkpoint is beyond the end of the log',
  () => {
    it('corrects the checkpoint first', async () => {
      const installation = await openTestInstallation();
      onTestFinished(() => installation.close());
      const { sql, commands, waiter } = installation;
      // An older version stored this after it trusted a position that an EventStoreDB does not
      // have.
      await sql`update read.checkpoints set position = ${2n ** 63n - 1n} where name = 'catalog'`;
      const { id } = await createKey(
        commands,
        keyRequest.parse({ name: 'ci', scopes: ['admin'] }),
        CAUSE,
        { allowNever: false },
      );
      expect((await listKeys(sql)).map(({ key_id }) => key_id)).toEqual([id]);
      expect(waiter.lateSince()).toBeNull();
      const [row] = await sql<{ position: bigint }[]>`
      select position from read.checkpoints where name = 'catalog'`;
      expect(row?.position).toBeLessThanOrEqual((await installation.store.head()) as bigint);
    });
  },
);
