import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { follow } from '../support/http/server-events.ts';
import { createProxiedDatabase, type ProxiedDatabase } from '../support/postgres/proxied.ts';
import { holdRows, whileTableLocked } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';

const TRANSFER = { source_uri: 's3://archive/a', destination_uri: 's3://archive/b' };

describeWithPostgres('the heartbeat of an event stream', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({ heartbeatMs: 200 });
  });
  afterAll(() => api?.close());

  test.each([
    ['transfers', 'access of its client', 'read.keys'],
    ['transfers', 'transfers', 'read.transfers'],
    ['projections', 'access of its client', 'read.keys'],
    ['projections', 'projections', 'work.checkpoints'],
  ])('of %s goes on while a read of the %s gets no answer', async (subject, _, table) => {
    const { key } = await api.createKey(['admin']);
    const stream = await follow<unknown>(`${api.url}/v1/${subject}/live`, key);
    onTestFinished(() => stream.leave());
    await until('it began', () => stream.events.length > 0);
    await whileTableLocked(api.installation.sql, table, async () => {
      // The first ones may have left before the read.
      const before = stream.comments.length;
      await until('heartbeats', () => stream.comments.length > before + 5, 20);
    });
    const before = stream.events.length;
    expect(await api.ask('POST', '/v1/transfers', { json: TRANSFER })).toMatchObject({
      status: 201,
    });
    await until('it goes on', () => stream.events.length > before);
  });
});

describeWithPostgres('an event stream during an outage of Postgres', () => {
  let database: ProxiedDatabase;
  let api: TestApi;
  beforeAll(async () => {
    database = await createProxiedDatabase();
    api = await startApi({ heartbeatMs: 200 }, { DATABASE_URL: database.url });
  });
  afterAll(async () => {
    await api?.close();
    await database?.drop();
  });

  test.each(['transfers', 'projections'])('of %s waits for its end', async (subject) => {
    const { key } = await api.createKey(['admin']);
    const stream = await follow<unknown>(`${api.url}/v1/${subject}/live`, key);
    onTestFinished(() => stream.leave());
    await until('it began', () => stream.events.length > 0);
    await database.takeAway();
    const duringIt = stream.comments.length;
    await until('heartbeats', () => stream.comments.length > duringIt + 10, 20);
    await database.giveBack();
    const before = stream.events.length;
    const created = () => api.ask('POST', '/v1/transfers', { json: TRANSFER });
    await until('a transfer', async () => (await created()).status === 201);
    await until('it goes on', () => stream.events.length > before);
  });
});

describeWithPostgres('an event stream', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('does not begin for a client that left during its admission', async () => {
    const { sql } = api.installation;
    const { key } = await api.createKey(['observe']);
    const accepted = once(api.app.server, 'connection') as Promise<[Socket]>;
    const client = connect(api.port, '127.0.0.1');
    const [connection] = await accepted;
    const admission = await holdRows(sql, (tx) => tx`lock table read.keys`);
    client.write(
      `GET /v1/transfers/live HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer ${key}\r\n\r\n`,
    );
    await until('its admission', async () => (await admission.waiting('with visitors')) > 0);
    client.resetAndDestroy();
    await until('its end', () => connection.destroyed);
    await admission.release();
    // The source of the stream reads the transfers once a second.
    const transfers = await holdRows(sql, (tx) => tx`lock table read.transfers`);
    await sleep(1_500);
    const reads = await transfers.waiting('read.transfers');
    await transfers.release();
    expect(reads).toBe(0);
  });
});
