import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type {
  EventBatch,
  EventStore,
  SubscribeOptions,
} from '../../../src/adapters/event-store/port.ts';
import { saveEndpoint } from '../../../src/commands/save-endpoint.ts';
import { admitTransfer, cancelTransfer } from '../../../src/commands/transfers.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { newId } from '../../../src/domain/ids.ts';
import { findTransfer } from '../../../src/processes/live/queries.ts';
import {
  loadCheckpoint,
  verifyCheckpoint,
  type Writes,
} from '../../../src/projections/checkpoint.ts';
import { type Consumer, lockOf } from '../../../src/projections/consumer.ts';
import {
  PROJECTIONS,
  prepareReadModels,
  projectionConsumer,
} from '../../../src/projections/read-models.ts';
import { rebuildProjection, verifyProjection } from '../../../src/projections/rebuild/rebuild.ts';
import type { RebuildProgress } from '../../../src/projections/rebuild/shadow.ts';
import { createRemovedLeaves } from '../../../src/projections/retention/removed-leaves.ts';
import { catchUpIfIdle, runConsumer } from '../../../src/projections/run-consumer.ts';
import type { TransferFilter } from '../../../src/projections/transfers/filter.ts';
import { eachTransfer, listTransfers } from '../../../src/projections/transfers/queries.ts';
import { createTransferSearch } from '../../../src/projections/transfers/search/projection.ts';
import { holdRows } from '../../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

/** Returns a log that has no events after a position. */
function endingAt(store: EventStore, end: bigint): EventStore {
  return {
    ...store,
    head: async () => end,
    async *subscribe(options) {
      for await (const { events, position } of store.subscribe(options)) {
        const caughtUp = position >= end;
        yield {
          events: events.filter((event) => event.position <= end),
          position: caughtUp ? end : position,
          caughtUp,
        };
      }
    },
  };
}

/** Returns a function that runs another one at its first call. */
function once(run: () => Promise<unknown>): () => Promise<void> {
  let first: Promise<unknown> | null = null;
  return async () => {
    first ??= run();
    await first;
  };
}

describeWithPostgres('rebuilding a projection', () => {
  let installation: TestInstallation;
  const ids: string[] = [];
  beforeAll(async () => {
    installation = await openTestInstallation();
    const request = endpointRequest.parse({
      name: 'files',
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'x',
    });
    await saveEndpoint(installation.commands, request, CAUSE);
    for (let i = 0; i < 30; i++) ids.push(await create());
    for (const id of ids.slice(0, 10)) await cancelTransfer(installation.commands, id, CAUSE);
    await catchUp();
  });
  afterAll(() => installation?.close());

  const create = () => submit(installation, 'sftp://elsewhere/a', `sftp://files/${randomUUID()}`);
  const catchUp = () => catchUpIfIdle(installation, projectionConsumer(PROJECTIONS.transfers));
  const quietly = () => undefined;
  const verify = () => verifyProjection(installation, 'transfers', quietly);
  const rebuild = () => rebuildProjection(installation, 'transfers', quietly);
  const leftovers = async () => {
    const { sql } = installation;
    return [
      ...(await sql`select nspname as name from pg_namespace where nspname like 'rebuild%'`),
      ...(await sql`select name from read.checkpoints where name like '%:%'`),
    ];
  };

  // Runs first: these are the tables that the start created.
  it('leaves tables with all their indexes', async () => {
    const indexes = () =>
      installation.sql`
        select tablename, indexname, indexdef from pg_indexes where schemaname = 'read'
         order by indexdef`;
    const before = await indexes();
    await rebuild();
    expect(await indexes()).toEqual(before);
  });

  it('leaves tables with the usual vacuum settings', async () => {
    await rebuild();
    const { sql } = installation;
    expect(
      await sql`
        select relname from pg_class
         where relnamespace = 'read'::regnamespace and reloptions is not null`,
    ).toHaveLength(0);
  });

  it('finds nothing wrong with correct tables', async () => {
    for (const name of ['transfers', 'catalog', 'transfer_search', 'audit', 'proof'] as const) {
      expect((await verifyProjection(installation, name, quietly)).differences).toEqual([]);
      expect((await rebuildProjection(installation, name, quietly)).differences).toEqual([]);
      expect((await verifyProjection(installation, name, quietly)).differences).toEqual([]);
    }
    expect(await leftovers()).toEqual([]);
  });

  it('folds each event once if the log repeats some', async () => {
    const { store } = installation;
    async function* subscribe(options: SubscribeOptions): AsyncGenerator<EventBatch, void, void> {
      let before: EventBatch['events'] = [];
      for await (const batch of store.subscribe({ ...options, batchSize: 7 })) {
        yield { ...batch, events: [...before, ...batch.events] };
        before = [...before, ...batch.events].slice(-20);
      }
    }
    const repeating = { ...installation, store: { ...store, subscribe } };
    for (const name of ['transfers', 'catalog', 'transfer_search', 'audit', 'proof'] as const) {
      expect((await rebuildProjection(repeating, name, quietly)).differences).toEqual([]);
      expect((await verifyProjection(installation, name, quietly)).differences).toEqual([]);
    }
  });

  it('folds a batch of transfers while the two before are not written', async () => {
    const { sql, store } = installation;
    const { createFill, create: createTables } = PROJECTIONS.transfers;
    await sql.begin(async (tx) => {
      await tx`create schema filled`;
      await createTables(tx, 'filled');
    });
    const [created, cancelled] = await store.read(`transfer-${ids[0]}`);
    const others = await store.read(`transfer-${ids[1]}`);
    const fill = createFill!(sql, 'filled');
    const written: (Writes | null)[] = [];
    for (const batch of [[created!], others, [cancelled!]])
      written.push(await fill(batch, createRemovedLeaves(store, null)));
    for (const writes of written)
      await sql`with moved as (select) ${writes!(sql)} select from moved`;
    expect(
      await sql`select transfer_id, status, revision from filled.transfers order by transfer_id`,
    ).toEqual(
      [ids[0], ids[1]]
        .toSorted()
        .map((transfer_id) => ({ transfer_id, status: 'cancelled', revision: 1 })),
    );
    await sql`drop schema filled cascade`;
  });

  it('reports its progress', async () => {
    const told: RebuildProgress[] = [];
    const { events } = await rebuildProjection(installation, 'transfers', (progress) =>
      told.push(progress),
    );
    expect(events).toBe(40);
    expect(told.at(-1)).toMatchObject({ events: 40, share: 1, secondsLeft: 0 });
  });

  it.each<[string, (id: string) => Promise<unknown>]>([
    [
      'a status',
      (id) =>
        installation.sql`update read.transfers set status = 'failed' where transfer_id = ${id}`,
    ],
    [
      'a state',
      (id) =>
        installation.sql`
          update read.transfers set state = jsonb_set(state::jsonb, '{facts,file_name}', '"x"')
           where transfer_id = ${id}`,
    ],
    [
      'a missing row',
      (id) => installation.sql`delete from read.transfers where transfer_id = ${id}`,
    ],
    [
      'a row too many',
      (id) => installation.sql`
        insert into read.transfers
        select 'txr_extra', account_id, status, created_at, destination, revision, position, state
          from read.transfers where transfer_id = ${id}`,
    ],
    [
      'a wrong count',
      () =>
        installation.sql`
          update read.transfer_counts set transfers = transfers + 1 where status = 'cancelled'`,
    ],
    [
      'a wrong total',
      () =>
        installation.sql`
          update read.transfer_totals set transfers = transfers + 1 where status = 'cancelled'`,
    ],
    [
      'a missing count',
      () => installation.sql`delete from read.transfer_counts where status = 'pending'`,
    ],
  ])('finds and fixes %s', async (_, tamper) => {
    const id = ids[12]!;
    await tamper(id);
    // In any order.
    const found = (await verify()).differences;
    expect(found.join(' ')).toMatch(
      new RegExp(`(^| )(${id}|txr_extra|count acc_default|total cancelled)`),
    );
    expect((await rebuild()).differences.toSorted()).toEqual(found.toSorted());
    expect((await verify()).differences).toEqual([]);
    expect((await findTransfer(installation.sql, 'acc_default', id))?.transfer).toMatchObject({
      status: 'pending',
      facts: { transfer_id: id },
    });
    expect((await installation.commands.queueEstimate('acc_default', 'normal')).openTransfers).toBe(
      20,
    );
  });

  it('starts over after another rebuild died half-way', async () => {
    const { sql } = installation;
    await sql`create schema rebuild_transfers`;
    await sql`create table rebuild_transfers.transfers (nonsense text)`;
    await sql`
      insert into read.checkpoints (name, version, log_id, position)
      values ('transfers:rebuild', 1, 'x', 20)`;
    expect((await rebuild()).differences).toEqual([]);
    expect((await verify()).differences).toEqual([]);
    expect(await leftovers()).toEqual([]);
  });

  it('fails if it loses the connection for its writes, and leaves nothing behind', async () => {
    const { sql, store } = installation;
    async function* subscribe(options: SubscribeOptions): AsyncGenerator<EventBatch, void, void> {
      for await (const batch of store.subscribe({ ...options, batchSize: 7 })) {
        yield batch;
        await sql`
          select pg_terminate_backend(pid) from pg_stat_activity
           where query like '%rebuild\\_transfers%' and pid <> pg_backend_pid()
             and datname = current_database()`;
      }
    }
    const losing = { ...installation, store: { ...store, subscribe } };
    await expect(rebuildProjection(losing, 'transfers', quietly)).rejects.toThrow();
    expect(await leftovers()).toEqual([]);
    expect((await rebuild()).differences).toEqual([]);
  });

  /** Locks that are lost when `lost` aborts. */
  function locksToLose() {
    const lost = new AbortController();
    const tryAcquire = async () => ({
      signal: lost.signal,
      isSure: () => !lost.signal.aborted,
      release: async () => undefined,
    });
    return { lost, locks: { ...installation.locks, tryAcquire } };
  }

  it('leaves the tables to its successor where it lost its lock', async () => {
    const { lost, locks } = locksToLose();
    const rebuilding = rebuildProjection({ ...installation, locks }, 'transfers', () =>
      lost.abort(new Error('lost')),
    );
    await expect(rebuilding).rejects.toMatchObject({ code: 'unavailable' });
    expect(await leftovers()).toHaveLength(2);
    await rebuild();
    expect(await leftovers()).toEqual([]);
  });

  it('gives its lock back where it can not drop its tables', async () => {
    let lost = false;
    const sql = new Proxy(installation.sql, {
      get: (target, name) =>
        name === 'begin' && lost
          ? async () => Promise.reject(new Error('The connection was lost'))
          : Reflect.get(target, name),
    });
    const rebuilding = rebuildProjection({ ...installation, sql }, 'transfers', () => {
      lost = true;
    });
    await expect(rebuilding).rejects.toThrow('The connection was lost');
    await rebuild();
    expect(await leftovers()).toEqual([]);
  });

  it('is rejected while another one runs', async () => {
    const held = await installation.locks.acquire(
      lockOf('transfers:rebuild'),
      new AbortController().signal,
    );
    await expect(rebuild()).rejects.toMatchObject({ code: 'unavailable' });
    await held.release();
    await rebuild();
  });

  it.each([
    ['transfers', 15],
    ['proof', 16],
  ] as const)(
    'repairs a row of %s that the live consumer has read for a batch before the take-over',
    async (name, transfer) => {
      const { sql, store } = installation;
      const consumer = projectionConsumer(PROJECTIONS[name]);
      const id = ids[transfer] as string;
      await catchUpIfIdle(installation, consumer);
      if (name === 'transfers')
        await sql`
          update read.transfers
             set state = jsonb_set(state::jsonb, '{facts,file_name}', '"damaged"')::json
           where transfer_id = ${id}`;
      else
        await sql`
          update read.proof_tiles
             set hashes = set_byte(hashes, 3, 255 - get_byte(hashes, 3)) where level = 0`;
      const before = endingAt(store, (await store.head())!);
      await admitTransfer(installation, id, CAUSE);

      const takeOver = once(() =>
        rebuildProjection({ ...installation, store: before }, name, quietly),
      );
      const interrupted: Consumer =
        'prepare' in consumer
          ? { ...consumer, prepare: (...batch) => consumer.prepare(...batch).finally(takeOver) }
          : {
              ...consumer,
              inOneStatement: async (...batch) => {
                const writes = await consumer.inOneStatement?.(...batch);
                await takeOver();
                return writes ?? null;
              },
            };
      await catchUpIfIdle(installation, interrupted);
      await catchUpIfIdle(installation, consumer);
      expect((await verifyProjection(installation, name, quietly)).differences).toEqual([]);
    },
  );

  // On a busy machine, a take-over often finds tables that are in use, and tries again.
  const BUSY = { timeout: 300_000 };
  it('loses nothing and fails no caller while others write, fold and read', BUSY, async () => {
    const stopping = new AbortController();
    const { sql } = installation;
    const projector = runConsumer(
      installation,
      projectionConsumer(PROJECTIONS.transfers),
      stopping.signal,
      quietly,
    );
    let written = 0;
    const writer = async () => {
      while (!stopping.signal.aborted) {
        const id = await create();
        await admitTransfer(installation, id, CAUSE);
        written++;
      }
    };
    let read = 0;
    const reader = async () => {
      for (let i = 0; !stopping.signal.aborted; i++) {
        const { transfers } = await listTransfers(
          sql,
          'acc_default',
          i % 2 ? { status: 'pending' } : {},
          { limit: 20, offset: i % 10 },
        );
        expect(transfers.length).toBeGreaterThan(0);
        expect(await findTransfer(sql, 'acc_default', ids[20]!)).not.toBeNull();
        read++;
      }
    };
    const busy = Promise.all([writer(), writer(), reader(), reader(), reader()]);
    busy.catch(() => stopping.abort());
    while (written < 20 && !stopping.signal.aborted) await sleep(10);
    for (let i = 0; i < 6 && !stopping.signal.aborted; i++) {
      const { differences } = i % 2 ? await verify() : await rebuild();
      expect(differences).toEqual([]);
    }
    stopping.abort();
    await busy;
    await projector;
    await catchUp();
    expect(read).toBeGreaterThan(0);
    expect((await verify()).differences).toEqual([]);
    const { total } = await listTransfers(sql, 'acc_default', {}, { limit: 1, offset: 0 });
    expect(total).toBe(30 + written);
  });

  it('pauses longer and longer while other sessions use the tables', async () => {
    const { sql } = installation;
    const reader = await holdRows(sql, (tx) => tx`select from read.transfers limit 1`);
    const pauses: number[] = [];
    let said = 0;
    const pause = async (_: string, ms: number) => {
      pauses.push(ms);
      if (pauses.length === 9) await reader.release();
    };
    const { differences } = await rebuildProjection(
      { ...installation, pause },
      'transfers',
      quietly,
      () => said++,
    );
    expect(differences).toEqual([]);
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
    expect(said).toBe(1);
    expect(await leftovers()).toEqual([]);
  });

  it('ends if it loses its lock while other sessions use the tables', async () => {
    const { sql } = installation;
    const reader = await holdRows(sql, (tx) => tx`select from read.transfers limit 1`);
    const { lost, locks } = locksToLose();
    const pause = async (_: string, ms: number, signal: AbortSignal) => {
      lost.abort(new Error('lost'));
      await sleep(ms, undefined, { signal }).catch(() => undefined);
    };
    await expect(
      rebuildProjection({ ...installation, locks, pause }, 'transfers', quietly),
    ).rejects.toMatchObject({ code: 'unavailable' });
    await reader.release();
    await rebuild();
    expect(await leftovers()).toEqual([]);
  });

  it.each<[string, TransferFilter]>([
    ['an export', {}],
    ['a list', {}],
    ['a list by destination', { destination: 'sftp://files/' }],
    ['a search', { q: 'sftp://files/' }],
    ['a search with a filter', { q: 'sftp://files/', status: 'pending' }],
  ])('shows all rows in %s that waits for the switch', async (what, filter) => {
    const { sql } = installation;
    const listed = async () => {
      if (what !== 'an export')
        return (await listTransfers(sql, 'acc_default', filter, { limit: 1, offset: 0 })).total;
      let count = 0;
      for await (const batch of eachTransfer(sql, 'acc_default', filter)) count += batch.length;
      return count;
    };
    await create();
    await catchUp();
    await catchUpIfIdle(installation, projectionConsumer(PROJECTIONS.transfer_search));
    const before = await listed();
    // A switch locks the tables, then folds the last events into the new ones.
    const names = ['transfers', 'transfer_search', 'transfer_search_accounts'];
    const swap = await holdRows(sql, async (tx) => {
      for (const name of names) await tx`lock table read.${tx(name)} in access exclusive mode`;
      for (const name of names) {
        await tx`create table read.filled (like read.${tx(name)} including all)`;
        await tx`insert into read.filled select * from read.${tx(name)}`;
        await tx`drop table read.${tx(name)}`;
        await tx`alter table read.filled rename to ${tx(name)}`;
      }
    });
    const reading = listed();
    await expect.poll(() => swap.waiting('read.transfer')).toBe(1);
    await swap.release();
    expect(await reading).toBe(before);
    for (const name of ['transfers', 'transfer_search'] as const)
      await rebuildProjection(installation, name, quietly);
  });

  it('recreates the tables if the database belongs to another log', async () => {
    const { sql } = installation;
    await sql`update read.checkpoints set log_id = 'another' where name = 'transfers'`;
    await expect(catchUp()).rejects.toThrow('waybill projections rebuild transfers');
    await rebuild();
    await catchUp();
    expect((await verify()).differences).toEqual([]);
  });

  it.each([1, 40])('recreates the tables after a restored log lost %i transfers', async (lost) => {
    const { sql, store, logId } = installation;
    const head = (await store.head())!;
    // Acts as if the log had continued for a while and then been restored to its current state.
    await sql`
      update read.checkpoints
         set position = ${head + 1_000n}, event_id = ${newId('evt')},
         event_stream = 'transfer-gone', event_revision = 0
       where name = 'transfers'`;
    await sql`
      insert into read.transfers
      select 'txr_gone' || n, account_id, status, created_at, destination, revision,
             ${head + 1_000n}, state
        from (select * from read.transfers limit 1) t, generate_series(1, ${lost}::integer) n`;
    const checkpoint = (await loadCheckpoint(sql, 'read.checkpoints', 'transfers'))!;
    await expect(verifyCheckpoint(store, 'transfers', checkpoint, logId)).rejects.toThrow(
      'an older copy of the log was restored',
    );
    await rebuild();
    await catchUp();
    expect((await verify()).differences).toEqual([]);
    expect(await findTransfer(sql, 'acc_default', 'txr_gone1')).toBeNull();
  });

  it('names the tables of an older version', async () => {
    await installation.sql`update read.checkpoints set version = 0 where name = 'catalog'`;
    expect(await prepareReadModels(installation.sql, installation.logId)).toEqual(
      new Map([['catalog', 'older']]),
    );
    await rebuildProjection(installation, 'catalog', quietly);
    expect(await prepareReadModels(installation.sql, installation.logId)).toEqual(new Map());
  });

  it('folds into the tables of an older version until the switch', async () => {
    const { sql, logId } = installation;
    await sql`update read.checkpoints set version = 2 where name = 'transfers'`;
    await sql`alter table read.transfers alter column state type jsonb`;
    expect(await prepareReadModels(sql, logId)).toEqual(new Map([['transfers', 'older']]));
    for (const step of [async () => undefined, rebuild]) {
      await step();
      const id = await create();
      await catchUp();
      await cancelTransfer(installation.commands, id, CAUSE);
      await catchUp();
      expect(await findTransfer(sql, 'acc_default', id)).toMatchObject({
        transfer: { status: 'cancelled' },
      });
      expect(
        (await listTransfers(sql, 'acc_default', {}, { limit: 1, offset: 0 })).transfers,
      ).toMatchObject([{ status: 'cancelled' }]);
    }
    expect((await verify()).differences).toEqual([]);
  });

  it('lets the tables of an older version serve reads until the switch', async () => {
    const { sql, logId, commands } = installation;
    const endpoints = (await commands.endpoints()).length;
    await sql`update read.checkpoints set version = 1 where name = 'catalog'`;
    await sql`drop table read.webhooks`;
    expect(await prepareReadModels(sql, logId)).toEqual(new Map([['catalog', 'older']]));
    expect(await commands.endpoints()).toHaveLength(endpoints);
    await expect(verifyProjection(installation, 'catalog', quietly)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/^The tables of catalog are .* nothing was compared/),
    });
    expect(await rebuildProjection(installation, 'catalog', quietly)).toMatchObject({
      compared: false,
      differences: [],
    });
    expect(await prepareReadModels(sql, logId)).toEqual(new Map());
    expect(await verifyProjection(installation, 'catalog', quietly)).toMatchObject({
      compared: true,
      differences: [],
    });
    expect(await commands.endpoints()).toHaveLength(endpoints);
    expect(await sql`select from read.webhooks`).toHaveLength(0);
  });

  it('keeps the segments of searches, and finds what is wrong with them', async () => {
    const { sql } = installation;
    const usual = PROJECTIONS.transfer_search;
    PROJECTIONS.transfer_search = createTransferSearch(10);
    try {
      for (let times = 0; times < 2; times++) {
        const { differences } = await rebuildProjection(installation, 'transfer_search', quietly);
        expect(differences).toEqual([]);
      }
      for (let i = 0; i < 12; i++) await create();
      await catchUp();
      const consumer = projectionConsumer(PROJECTIONS.transfer_search);
      await catchUpIfIdle(installation, consumer);
      const found: string[] = [];
      for await (const batch of eachTransfer(sql, 'acc_default', { q: 'elsewhere' }))
        found.push(...batch.map(({ facts }) => facts.transfer_id));
      const all = await sql<{ transfer_id: string }[]>`
        select transfer_id from read.transfers where account_id = 'acc_default'`;
      expect(found.toSorted()).toEqual(all.map(({ transfer_id }) => transfer_id).toSorted());
      const verifySearch = async () =>
        (await verifyProjection(installation, 'transfer_search', quietly)).differences;
      expect(await verifySearch()).toEqual([]);
      // An index that does not find a text hides its transfer.
      await sql`create table kept_lists as select * from read.transfer_search_trigrams`;
      const damages = [
        sql`delete from read.transfer_search_trigrams
             where segment = 1 and list = (
               select min(list) from read.transfer_search_trigrams where segment = 1)`,
        sql`update read.transfer_search_trigrams set numbers = '\\x00' where segment = 1`,
        sql`update read.transfer_search set number = -1 where segment = 1 and number = 0`,
      ];
      for (const damage of damages) {
        await damage;
        expect(await verifySearch()).toEqual(['segment 1']);
        await sql`delete from read.transfer_search_trigrams`;
        await sql`insert into read.transfer_search_trigrams select * from kept_lists`;
        await sql`update read.transfer_search set number = 0 where number = -1`;
      }
      // A full segment leaves no row that is not in one.
      await create();
      await catchUp();
      await catchUpIfIdle(installation, consumer);
      await sql`create table kept_accounts as select * from read.transfer_search_accounts`;
      for (const damage of [
        sql`delete from read.transfer_search_accounts`,
        sql`update read.transfer_search_accounts set position = position - 1`,
        sql`update read.transfer_search_accounts set recent = recent + 1`,
        sql`update read.transfer_search_accounts set characters = characters - 1`,
        sql`update read.transfer_search_accounts set starts = null`,
        sql`update read.transfer_search_accounts set ends = starts - interval '1 day'`,
      ]) {
        await damage;
        expect(await verifySearch()).toContain('account acc_default');
        await sql`delete from read.transfer_search_accounts`;
        await sql`insert into read.transfer_search_accounts select * from kept_accounts`;
        expect(await verifySearch()).toEqual([]);
      }
      await sql`update read.transfer_search_segments set ends = starts where segment = 2`;
      await sql`delete from read.transfer_search_trigrams where segment = 1`;
      expect(await verifySearch()).toEqual(expect.arrayContaining(['segment 1', 'segment 2']));
      await sql`update read.transfer_search set text = 'x' where transfer_id = ${ids[0] as string}`;
      expect(await verifySearch()).toContain(ids[0]);
      await rebuildProjection(installation, 'transfer_search', quietly);
      expect(await verifySearch()).toEqual([]);
      expect(await leftovers()).toEqual([]);
    } finally {
      PROJECTIONS.transfer_search = usual;
    }
  });
});
