import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { whileTableLocked } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';

/** Far more than a rejection takes, and less than Postgres lets a table be locked. */
const SOON_MS = 10_000;

describeWithPostgres('open answers', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('are at most a number of exports for each client', async () => {
    const { sql } = api.installation;
    const server = await api.startServer({ maxExports: 2 });
    const [one, other] = [await api.createKey(['admin']), await api.createKey(['admin'])];
    const headers = { accept: 'text/csv' };
    const audit = ({ key }: { key: string }) => server.ask('GET', '/v1/audit', { key, headers });
    const { rejected, open } = await whileTableLocked(sql, 'read.audit', async () => {
      const exports = [audit(one), audit(one), audit(one)];
      // Without the limit, all three would wait for the table.
      const rejected = await Promise.race([...exports, sleep(SOON_MS)]);
      if (!rejected) throw new Error('No export was rejected');
      for (const path of ['/v1/events', '/v1/transfers'])
        expect(await server.ask('GET', path, { key: one.key, headers })).toMatchObject({
          status: 429,
        });
      // A page is not an export, and another client has its own number.
      expect(await server.ask('GET', '/v1/transfers', { key: one.key })).toMatchObject({
        status: 200,
      });
      return { rejected, open: [...exports, audit(other)] };
    });
    expect(rejected).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(rejected.headers.get('retry-after')).toBe('60');
    const statuses = (await Promise.all(open)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 200, 200, 429]);
    expect(await audit(one)).toMatchObject({ status: 200 });
  });

  describe('that no client reads', () => {
    const UNREAD_MS = 500;

    test('break off', async () => {
      const { app, port } = await api.startServer({ unreadMs: UNREAD_MS });
      const accepted = once(app.server, 'connection') as Promise<[Socket]>;
      const client = connect(port, '127.0.0.1');
      client.on('error', () => undefined);
      const [connection] = await accepted;
      // More than the buffers of both sides hold.
      client.write('GET /v1/openapi.json HTTP/1.1\r\nHost: a.example\r\n\r\n'.repeat(50));
      await until('the end of the connection', () => connection.destroyed);
      client.destroy();
    });

    test('wait for their handlers', async () => {
      const { sql } = api.installation;
      const server = await api.startServer({ unreadMs: UNREAD_MS });
      const answer = await whileTableLocked(sql, 'read.transfers', async () => {
        const answer = server.ask('GET', '/v1/transfers');
        await sleep(3 * UNREAD_MS);
        return { answer };
      });
      expect(await answer.answer).toMatchObject({ status: 200 });
    });
  });
});
