import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ProjectionName } from '../../src/domain/projection-name.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { type Answer, type Server, startApi, type TestApi } from '../support/http/api.ts';
import { follow } from '../support/http/server-events.ts';
import { freePort } from '../support/network/free-port.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

/*
 * A client reads and changes what it has just created, while no read model shows it: the writer's
 * wait has timed out.
 */

const TRANSFER = {
  source_uri: 'sftp://files.example.com/out/a.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('what the read models do not show yet', () => tests(async () => startApi()));

describeOnEventStoreDb('what the read models do not show yet', (start) => {
  let stop: (() => Promise<void>) | undefined;
  tests(async () => {
    const log = await start();
    stop = log.close;
    return startApi({}, log.settings);
  });
  afterAll(() => stop?.());
});

function tests(start: () => Promise<TestApi>): void {
  let api: TestApi;
  /** A server whose waits time out at once. */
  let server: Server;
  let key: string;
  let stranger: string;
  beforeAll(async () => {
    api = await start();
    const commands = {
      ...api.installation.commands,
      waitFor: async () => false,
      waitToRead: async () => false,
      catchUp: async () => true,
    };
    server = await api.startServer({ commands });
    key = (await api.createKey(['admin'])).key;
    const scopes = ['transfers:write', 'webhooks:write', 'flows:write', 'operate'] as const;
    stranger = (await api.createKey([...scopes], { account: 'acc_stranger' })).key;
  });
  afterAll(() => api?.close());

  type Send = (method: string, path?: string, json?: unknown) => Promise<Answer>;
  const sendTo =
    (root: string, whose: string, to = server): Send =>
    (method, path = '', json) =>
      to.ask(method, root + path, { key: whose, ...(json !== undefined && { json }) });

  /** Runs `work` while the projection stands still. */
  async function behind(name: ProjectionName, work: () => Promise<void>): Promise<void> {
    const { commands, sql } = api.installation;
    expect(await commands.catchUp(name)).toBe(true);
    const rows = await holdRows(
      sql,
      (tx) => tx`select from read.checkpoints where name = ${name} for update`,
    );
    try {
      await work();
    } finally {
      await rows.release();
    }
  }

  test('an endpoint is shown, changed and removed', async () => {
    const own = (await api.createKey(['operate'])).key;
    await behind('catalog', async () => {
      const settings = { protocol: 'sftp', host: '127.0.0.1', port: await freePort() };
      const json = { name: 'partner', ...settings, username: 'me', password: 'secret' };
      const created = await sendTo('/v1/endpoints', key)('POST', '', {
        ...json,
        accounts: ['acc_default'],
      });
      expect(created).toMatchObject({ status: 503, body: { code: 'unavailable' } });
      const [id] = /end_\w{26}/.exec(created.body.detail) ?? [];
      const root = `/v1/endpoints/${id}`;
      const endpoint = sendTo(root, key);

      expect(await endpoint('GET')).toMatchObject({ status: 200, body: { id, name: 'partner' } });
      expect((await sendTo(root, own)('GET')).status).toBe(200);
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/files?path=/'],
        ['POST', '/test'],
        ['POST', '/pause'],
      ] as const)
        expect((await sendTo(root, stranger)(method, path)).status).toBe(404);

      expect(await endpoint('POST', '/pause')).toMatchObject({ body: { paused: true } });
      expect(await endpoint('POST', '/resume')).toMatchObject({ body: { paused: false } });
      expect((await endpoint('GET', '/files?path=/')).body.code).toBe('endpoint_failed');
      expect((await endpoint('POST', '/test')).status).toBe(200);
      const hostKey = { host_key_sha256: `SHA256:${'A'.repeat(43)}` };
      expect((await endpoint('POST', '/accept-host-key', hostKey)).body.code).toBe(
        'endpoint_failed',
      );
      const renamed = await endpoint('PUT', '', { ...json, name: 'other' });
      expect(renamed.body.errors).toMatchObject([{ field: 'name' }]);
      const changed = await endpoint('PUT', '', { ...json, max_connections: 3 });
      expect(changed.body.detail).toContain(`${id} is saved`);
      expect((await endpoint('GET')).body).toMatchObject({ max_connections: 3, accounts: null });
      expect((await endpoint('DELETE')).status).toBe(204);
      for (const method of ['GET', 'DELETE']) expect((await endpoint(method)).status).toBe(404);
      expect((await endpoint('PUT', '', json)).status).toBe(404);
    });
  });

  test('a batch is shown and cancelled', async () => {
    await behind('batches', async () => {
      const { status, body } = await sendTo('/v1/batches', key)('POST', '', {
        items: [TRANSFER, { ...TRANSFER, destination_uri: 's3://archive/other/' }],
      });
      expect(status).toBe(201);
      const { transfer_ids: _, ...created } = body;
      const root = `/v1/batches/${created.id}`;
      const batch = sendTo(root, key);

      expect(await batch('GET')).toMatchObject({ status: 200, body: created });
      expect(await batch('GET', '/rejected')).toMatchObject({ status: 200, body: { data: [] } });
      expect((await batch('POST', '/retry')).body.code).toBe('batch_not_retryable');
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/rejected'],
        ['POST', '/retry'],
        ['DELETE', ''],
      ] as const)
        expect((await sendTo(root, stranger)(method, path)).status).toBe(404);

      expect(await api.installation.commands.catchUp('transfers')).toBe(true);
      expect(await batch('DELETE')).toMatchObject({ status: 200, body: { cancelled: 2 } });
      expect(await api.installation.commands.catchUp('transfers')).toBe(true);
      expect((await batch('GET')).body).toMatchObject({
        status: 'cancelled',
        counts: { items: 2, pending: 0, cancelled: 2 },
      });
    });
  });

  test('a key is revoked', async () => {
    const keys = sendTo('/v1/keys', key);
    let secret = '';
    await behind('catalog', async () => {
      const json = { name: 'short-lived', scopes: ['transfers:read'] };
      const { body } = await keys('POST', '', json);
      secret = body.key;
      const revoked = await keys('POST', `/${body.id}/revoke`);
      expect(revoked.body.detail).toContain('The revocation is in the log');
    });
    expect(await api.installation.commands.catchUp('catalog')).toBe(true);
    const refused = await api.ask('GET', '/v1/transfers', { key: secret });
    expect(refused.body.code).toBe('api_key_revoked');
  });

  test('a webhook is shown, changed, used and removed', async () => {
    const transfer = await sendTo('/v1/transfers', key)('POST', '', TRANSFER);
    const history = await sendTo(`/v1/transfers/${transfer.body.id}/events`, key)('GET');
    await behind('catalog', async () => {
      const json = { url: 'https://receiver.example.com/', events: ['transfer.created'] };
      const { body } = await sendTo('/v1/webhooks', key)('POST', '', json);
      const root = `/v1/webhooks/${body.id}`;
      const webhook = sendTo(root, key);

      expect(await webhook('GET')).toMatchObject({ status: 200, body: { url: json.url } });
      expect((await sendTo(root, stranger)('GET')).status).toBe(404);
      const ping = await webhook('POST', '/ping');
      expect(ping.status).toBe(202);
      expect((await webhook('GET', `/deliveries/${ping.body.id}`)).status).toBe(200);
      const retried = await sendTo(`/v1/deliveries/${ping.body.id}/retry`, key)('POST');
      expect(retried.status).toBe(202);
      const from = history.body.data[0].id;
      expect((await webhook('POST', '/replay', { from })).status).toBe(202);
      expect((await webhook('PATCH', '', { enabled: false })).body.enabled).toBe(false);
      expect((await webhook('DELETE')).status).toBe(204);
      expect((await webhook('GET')).status).toBe(404);
    });
  });

  test('a flow is shown, paused and removed', async () => {
    await behind('flows', async () => {
      const { body } = await sendTo('/v1/flows', key)('POST', '', {
        name: 'orders',
        source: { uri: 's3://archive/out/' },
        trigger: { cron: '0 6 * * *' },
        destination_uri: 's3://archive/in/',
      });
      const root = `/v1/flows/${body.id}`;
      const flow = sendTo(root, key);

      expect((await flow('GET')).body).toEqual(body);
      expect((await sendTo(root, stranger)('GET')).status).toBe(404);
      expect(await flow('GET', '/runs')).toMatchObject({ status: 200, body: { data: [] } });
      expect((await flow('POST', '/pause')).body.status).toBe('paused');
      expect((await flow('GET')).body.status).toBe('paused');
      expect((await flow('DELETE')).body.status).toBe('removed');
      expect((await flow('GET')).status).toBe(404);
    });
  });

  test('a transfer is followed', async () => {
    await behind('transfers', async () => {
      const { body } = await sendTo('/v1/transfers', key)('POST', '', TRANSFER);
      const path = `/v1/transfers/live?transfer_id=${body.id}`;
      expect((await sendTo(path, stranger)('GET')).status).toBe(404);
      const { events, leave, ended } = await follow(server.url + path, key);
      await expect
        .poll(() => events)
        .toMatchObject([
          { event: 'snapshot', data: { transfers: [{ id: body.id, status: 'pending' }] } },
        ]);
      leave();
      await ended;
    });
  });

  test('a checkpoint is found in a moment', async () => {
    const checkpoints = sendTo('/v1/checkpoints', key);
    let signed: Answer | undefined;
    await behind('proof', async () => {
      signed = await checkpoints('POST');
      expect(signed.status).toBe(200);
      for (const path of [`/${signed.body.size}`, '/latest'])
        expect(await checkpoints('GET', path)).toMatchObject({
          status: 503,
          body: { code: 'unavailable' },
        });
      expect((await checkpoints('GET', '/1')).status).toBe(404);
    });
    expect(await api.installation.commands.catchUp('proof')).toBe(true);
    const found = await checkpoints('GET', `/${signed?.body.size}`);
    expect(found.body).toEqual(signed?.body);
    expect((await checkpoints('GET', '/1')).status).toBe(404);
  });
}
