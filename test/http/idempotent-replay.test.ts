import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const CREATIONS = [
  [
    'transfers',
    '/v1/transfers',
    { source_uri: 'sftp://files.example.com/report.csv', destination_uri: 's3://archive/in/' },
  ],
  ['webhooks', '/v1/webhooks', { url: 'https://example.com/', events: ['transfer.completed'] }],
  ['keys', '/v1/keys', { name: 'nightly', scopes: ['transfers:read'] }],
] as const;

describeWithPostgres('a replayed answer', () => {
  let api: TestApi;
  let key: string;
  beforeAll(async () => {
    api = await startApi();
    key = (await api.createKey(['admin'])).key;
  });
  afterAll(() => api?.close());

  /**
   * Blocks the projection's writes to a table, which stays readable, until the result is called.
   */
  async function delayProjection(table: string): Promise<() => Promise<void>> {
    const { sql } = api.installation;
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const holding = sql.begin(async (transaction) => {
      await transaction`lock table read.${transaction(table)} in share mode`;
      locked.resolve();
      await release.promise;
    });
    await Promise.race([locked.promise, holding]);
    return async () => {
      release.resolve();
      await holding;
    };
  }

  test.each(CREATIONS)(
    'to a creation of %s waits for the read model, as the first answer did',
    async (table, path, json) => {
      const headers = { 'idempotency-key': `delayed-${table}` };
      // The first answer is sent after the wait has timed out.
      const impatient = await api.startServer({
        commands: { ...api.installation.commands, waitFor: async () => false },
      });
      const shown = async (id: string) => {
        const { body } = await api.ask('GET', path, { key });
        return body.data.some((item: { id: string }) => item.id === id);
      };

      const goOn = await delayProjection(table);
      let replay: ReturnType<TestApi['ask']>;
      try {
        const first = await impatient.ask('POST', path, { key, json, headers });
        expect(first.status).toBe(201);
        expect(await shown(first.body.id)).toBe(false);

        replay = api.ask('POST', path, { key, json, headers });
        expect(await Promise.race([replay.then(() => 'answered'), sleep(500, 'waiting')])).toBe(
          'waiting',
        );
      } finally {
        await goOn();
      }
      const { status, headers: given, body } = await replay;
      expect(status).toBe(201);
      expect(given.get('idempotent-replayed')).toBe('true');
      expect(await shown(body.id)).toBe(true);
    },
  );

  test('is the same without a body and with an empty object', async () => {
    const { body: created } = await api.ask('POST', '/v1/transfers', {
      key,
      json: CREATIONS[0][2],
    });
    await api.ask('DELETE', `/v1/transfers/${created.id}`, { key });
    const headers = { 'idempotency-key': 'without-body' };
    const path = `/v1/transfers/${created.id}/retry`;
    const first = await api.ask('POST', path, { key, headers });
    expect(first.status).toBe(201);
    const again = await api.ask('POST', path, { key, headers, json: {} });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect([again.status, again.body]).toEqual([first.status, first.body]);
  });

  test('of an older version, which stored no positions, is sent at once', async () => {
    const post = () =>
      api.ask('POST', '/v1/transfers', {
        json: CREATIONS[0][2],
        headers: { 'idempotency-key': 'older' },
      });
    const first = await post();
    const { sql } = api.installation;
    await sql`update work.idempotency_keys set answer = answer - 'shown' where key = 'older'`;
    expect(await post()).toMatchObject({ status: 201, body: first.body });
  });
});
