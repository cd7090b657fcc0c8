import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectionStatus } from '../../src/processes/projections/status.ts';
import {
  requestProjectionTask,
  runProjectionTasks,
  TASKS_LOCK,
} from '../../src/processes/projections/tasks.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { follow } from '../support/http/server-events.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';

describeWithPostgres('/v1/projections', () => {
  let api: TestApi;
  let admin: string;
  beforeAll(async () => {
    api = await startApi({ heartbeatMs: 200 });
    admin = (await api.createKey(['admin'])).key;
    for (const name of ['a', 'b', 'c']) {
      await api.ask('POST', '/v1/transfers', {
        json: { source_uri: `sftp://elsewhere/${name}`, destination_uri: 's3://archive/' },
      });
    }
  });
  afterAll(() => api?.close());

  const ask = (method: string, path = '', options = {}) =>
    api.ask(method, `/v1/projections${path}`, { key: admin, ...options });
  const get = async (name: string) => (await ask('GET', `/${name}`)).body;

  /** Waits for a condition while a process with the role `projector` runs the requested tasks. */
  async function worked<T>(what: string, condition: () => Promise<T> | T): Promise<NonNullable<T>> {
    const stopping = new AbortController();
    const running = runProjectionTasks(api.installation, stopping.signal);
    try {
      return await until(what, condition);
    } finally {
      stopping.abort();
      await running;
    }
  }
  const ended = (name: string, kind: 'rebuild' | 'verify') => async () => {
    const task = (await get(name))[kind];
    return task.finished_at === null ? null : task;
  };

  test('are listed with their progress', async () => {
    await until('all are caught up', async () => (await get('transfers')).lag_events === 0);
    const { status, body } = await ask('GET');
    expect(status).toBe(200);
    expect(body.data.map(({ name }: { name: string }) => name)).toEqual([
      'audit',
      'batches',
      'catalog',
      'flows',
      'proof',
      'transfer_search',
      'transfers',
    ]);
    expect(body.data.at(-1)).toMatchObject({
      state: 'running',
      version: expect.any(Number),
      position: expect.stringMatching(/^\d+$/),
      log_position: String(await api.installation.store.head()),
      lag_events: 0,
      lag_seconds: 0,
      moved_at: expect.stringMatching(/Z$/),
      rebuild: null,
      verify: null,
    });
  });

  test('show how many events they lag behind, and since when', async () => {
    const { sql } = api.installation;
    await sql`
      insert into work.checkpoints (name, version, log_id, position)
      values ('dispatch', 1, ${api.installation.logId}, 0)`;
    expect(await get('dispatch')).toMatchObject({
      state: 'stopped',
      lag_events: 3,
      lag_seconds: expect.any(Number),
      position: '0',
    });
  });

  test('are asked for one by one without the others', async () => {
    const { installation } = api;
    const fails = () => {
      throw new Error('The events of dispatch cannot be counted');
    };
    const deps = { ...installation, store: { ...installation.store, subscribe: fails } };
    await expect(projectionStatus(deps)).rejects.toThrow('cannot be counted');
    expect(await projectionStatus(deps, 'transfers')).toMatchObject([{ name: 'transfers' }]);
    expect(await projectionStatus(deps, 'nothing')).toEqual([]);
  });

  test('are rebuilt by a process that starts later, with progress to the end', async () => {
    const asked = await ask('POST', '/transfers/rebuild');
    expect(asked).toMatchObject({
      status: 202,
      body: { name: 'transfers', rebuild: { state: 'waiting', started_at: null, share: 0 } },
    });
    expect(asked.headers.get('location')).toBe('/v1/projections/transfers');
    const again = await ask('POST', '/transfers/rebuild');
    expect(again.body.rebuild.requested_at).toBe(asked.body.rebuild.requested_at);

    type List = {
      data: { name: string; rebuild: { state: string; share: number; events: number } | null }[];
    };
    const stream = await follow<List>(`${api.url}/v1/projections/live`, admin);
    const latest = () =>
      stream.events.at(-1)?.data.data.find(({ name }) => name === 'transfers')?.rebuild;
    await worked('the rebuild', () => latest()?.state === 'done');
    expect(latest()).toMatchObject({
      share: 1,
      events: 3,
      differences: [],
      error: null,
      finished_at: expect.any(String),
    });
    stream.leave();
    await stream.ended;
    expect((await api.ask('GET', '/v1/transfers')).body.pagination.total).toBe(3);

    const next = await ask('POST', '/transfers/rebuild');
    expect(next.body.rebuild).toMatchObject({
      state: 'waiting',
      finished_at: null,
      differences: null,
    });
    expect(await worked('the next rebuild', ended('transfers', 'rebuild'))).toMatchObject({
      state: 'done',
    });
  });

  test('are verified, and wrong rows are named', async () => {
    const { sql } = api.installation;
    const [row] = await sql<
      { transfer_id: string }[]
    >`select transfer_id from read.transfers limit 1`;
    await sql`
      update read.transfers set destination = 'elsewhere' where transfer_id = ${row!.transfer_id}`;
    expect(await ask('POST', '/transfers/verify')).toMatchObject({
      status: 202,
      body: { verify: { state: 'waiting' } },
    });
    expect((await worked('the verification', ended('transfers', 'verify'))).differences).toEqual([
      row!.transfer_id,
    ]);
  });

  test('derive the jobs of dispatch again', async () => {
    expect(await ask('POST', '/dispatch/rebuild')).toMatchObject({ status: 202 });
    expect(await worked('the rebuild', ended('dispatch', 'rebuild'))).toMatchObject({
      state: 'done',
      error: null,
    });
    expect(await ask('POST', '/dispatch/verify')).toMatchObject({ status: 404 });
  });

  test('show the rebuild of a killed process as waiting, until it starts over', async () => {
    const { sql } = api.installation;
    await requestProjectionTask(sql, 'catalog', 'rebuild', 'test');
    await sql`
      update work.projection_tasks set started_at = now(), share = 0.5, events = 9
       where projection = 'catalog'`;
    expect((await get('catalog')).rebuild).toMatchObject({ state: 'waiting', share: 0.5 });
    const held = await api.installation.locks.tryAcquire(TASKS_LOCK);
    expect((await get('catalog')).rebuild).toMatchObject({ state: 'running' });
    await held?.release();
    expect(await worked('the rebuild', ended('catalog', 'rebuild'))).toMatchObject({
      state: 'done',
      share: 1,
    });
  });

  test('report why a rebuild failed', async () => {
    const { locks } = api.installation;
    const held = await locks.tryAcquire('consumer:catalog:rebuild');
    await ask('POST', '/catalog/rebuild');
    const failed = await worked('the failure', ended('catalog', 'rebuild'));
    expect(failed).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('being rebuilt'),
    });
    await held?.release();
  });

  test.each([
    ['GET', ''],
    ['GET', '/live'],
    ['GET', '/transfers'],
    ['POST', '/transfers/rebuild'],
    ['POST', '/transfers/verify'],
  ])('%s %s needs an admin key', async (method, path) => {
    expect(await ask(method, path, { key: api.key })).toMatchObject({
      status: 403,
      body: { required_scope: 'admin' },
    });
  });

  test('that do not exist are not found', async () => {
    expect(await ask('GET', '/nonsense')).toMatchObject({ status: 404 });
    expect(await ask('POST', '/nonsense/rebuild')).toMatchObject({ status: 404 });
    expect(await ask('POST', '/transfers')).toMatchObject({ status: 405 });
    expect(await ask('GET', '?x=1')).toMatchObject({ status: 400 });
  });
});
