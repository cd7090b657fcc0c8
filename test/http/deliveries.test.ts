import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as schemas from '../../src/contract/webhooks/deliveries.ts';
import { payloadSchema } from '../../src/contract/webhooks/payloads.ts';
import { newId } from '../../src/domain/ids.ts';
import { type Answer, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhooks/receiver.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

const UNKNOWN = 'dlv_01JZ8Q6W3N5V4T2R1P0M9K8J7H';

describeWithPostgres('deliveries over HTTP', () => {
  let api: TestApi;
  let roles: RunningRoles;
  let receiver: WebhookReceiver;
  let key: string;
  let adminKey: string;
  let otherKey: string;
  let webhook: { id: string; secret: string };

  beforeAll(async () => {
    api = await startApi(
      {},
      { WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8', WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms' },
    );
    roles = await startRoles(api.installation, ['webhooks']);
    ({ key } = await api.createKey(['webhooks:write']));
    ({ key: adminKey } = await api.createKey(['admin'], { account: 'acc_admin' }));
    ({ key: otherKey } = await api.createKey(['webhooks:write'], { account: 'acc_other' }));
    receiver = await startWebhookReceiver();
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([receiver?.close(), api?.close()]);
  });

  beforeEach(async () => {
    receiver.behave(200);
    receiver.received.length = 0;
    webhook = await register(['transfer.created']);
  });

  const ask = (method: string, path: string, json?: unknown, whose = key): Promise<Answer> =>
    api.ask(method, `/v1${path}`, { key: whose, ...(json === undefined ? {} : { json }) });
  const register = async (events: string[]) =>
    (await ask('POST', '/webhooks', { url: receiver.url, events })).body;
  const ping = async () => (await ask('POST', `/webhooks/${webhook.id}/ping`)).body.id as string;
  const pathOf = (id: string) => `/webhooks/${webhook.id}/deliveries/${id}`;
  const list = async (query = '') =>
    (await ask('GET', `/webhooks/${webhook.id}/deliveries${query}`)).body as schemas.DeliveryList;
  const untilStatus = async (id: string, status: string): Promise<schemas.DeliveryDetail> => {
    await expect
      .poll(async () => (await ask('GET', pathOf(id))).body.status, { timeout: 30_000 })
      .toBe(status);
    return (await ask('GET', pathOf(id))).body;
  };

  test('a ping is delivered, signed, and shown in full', async () => {
    const answer = await ask('POST', `/webhooks/${webhook.id}/ping`);
    expect(answer.status).toBe(202);
    const { id, event_id } = schemas.delivery.parse(answer.body);
    expect(answer.body).toMatchObject({
      webhook_id: webhook.id,
      account_id: 'acc_default',
      event_type: 'ping',
      transfer_id: null,
    });
    expect(answer.headers.get('location')).toBe(`/v1${pathOf(id)}`);

    const delivered = schemas.deliveryDetail.parse(await untilStatus(id, 'delivered'));
    expect(delivered).toMatchObject({
      attempts: 1,
      last_status_code: 200,
      last_error: null,
      next_attempt_at: null,
    });
    expect(delivered.attempt_list).toMatchObject([
      { number: 1, status_code: 200, error: null, response_body: 'said 200' },
    ]);
    const request = receiver.received.find(({ eventId }) => eventId === event_id)!;
    expect(request.body).toBe(delivered.body);
    const verified = new Webhook(webhook.secret).verify(
      request.body,
      request.headers as Record<string, string>,
    );
    expect(payloadSchema('ping').parse(verified)).toMatchObject({
      id: event_id,
      data: { webhook_id: webhook.id },
    });
  });

  test('the request of the last attempt is shown, until its webhook is gone', async () => {
    const id = await ping();
    const { event_id, request } = await untilStatus(id, 'delivered');
    const sent = receiver.received.find(({ eventId }) => eventId === event_id)!;
    const lowercase = Object.entries(request?.headers ?? {}).map(([name, value]) => [
      name.toLowerCase(),
      value,
    ]);
    expect(request?.url).toBe(receiver.url);
    expect(sent.headers).toMatchObject(Object.fromEntries(lowercase));
    expect(lowercase.map(([name]) => name)).toEqual(
      expect.arrayContaining(['content-type', 'user-agent', 'webhook-id', 'webhook-signature']),
    );

    await ask('POST', `/webhooks/${webhook.id}/rotate-secret`, { grace: '0s' });
    const rotated = (await ask('GET', pathOf(id))).body as schemas.DeliveryDetail;
    expect(rotated.request?.headers['webhook-timestamp']).toBe(sent.headers['webhook-timestamp']);
    expect(rotated.request?.headers['webhook-signature']).not.toBe(
      sent.headers['webhook-signature'],
    );
    await ask('DELETE', `/webhooks/${webhook.id}`);
    const { body } = await ask('GET', `/deliveries/${id}`, undefined, adminKey);
    expect(schemas.deliveryDetail.parse(body).request).toBeNull();
  });

  test('a ping to a disabled webhook is rejected', async () => {
    await ask('PATCH', `/webhooks/${webhook.id}`, { enabled: false });
    const answer = await ask('POST', `/webhooks/${webhook.id}/ping`);
    expect(answer).toMatchObject({
      status: 409,
      body: { code: 'webhook_disabled', detail: expect.stringContaining('enable it') },
    });
    expect((await list()).data).toEqual([]);
    await ask('PATCH', `/webhooks/${webhook.id}`, { enabled: true });
    await untilStatus(await ping(), 'delivered');
  });

  test('a ping that was cut off before its answer was stored is sent once', async () => {
    const request = { key, headers: { 'idempotency-key': newId('req') } };
    const send = () => api.ask('POST', `/v1/webhooks/${webhook.id}/ping`, request);
    const first = await send();
    await api.installation.sql`
      update work.idempotency_keys set status = null, answer = null
       where key = ${request.headers['idempotency-key']}`;
    expect(await send()).toMatchObject({
      status: 202,
      body: { id: first.body.id, event_id: first.body.event_id },
    });
    expect((await list()).data).toHaveLength(1);
  });

  test('a subscribed event is delivered as the document describes it', async () => {
    const { id } = await register([
      'transfer.created',
      'transfer.in_progress',
      'transfer.completed',
      'transfer.failed',
      'transfer.cancelled',
    ]);
    webhook.id = id;
    const ended = [
      await appendTransfer(api.installation.store, ['admitted', 'started', 'completed']),
      await appendTransfer(api.installation.store, ['admitted', 'started', 'failed']),
      await appendTransfer(api.installation.store, ['admitted', 'cancelled']),
    ];
    await expect
      .poll(async () => (await list('?status=delivered')).pagination.total, { timeout: 30_000 })
      .toBe(8);
    for (const { event_type, event_id, transfer_id, id } of (await list()).data) {
      const { body } = (await ask('GET', pathOf(id))).body as schemas.DeliveryDetail;
      const payload = payloadSchema(event_type as 'transfer.created').parse(JSON.parse(body));
      expect(payload).toMatchObject({ id: event_id, data: { transfer_id } });
    }
    const types = (await list()).data.map(({ event_type }) => event_type);
    expect(new Set(types).size).toBe(5);
    expect(ended.map(({ transferId }) => transferId)).toContain(
      (await list()).data[0]!.transfer_id,
    );
  });

  test('deliveries are listed newest first, page by page and by status', async () => {
    receiver.behave(500);
    const failed = await ping();
    await untilStatus(failed, 'failed');
    receiver.behave(200);
    const delivered = [await ping(), await ping()];
    for (const id of delivered) await untilStatus(id, 'delivered');

    const idsOf = ({ data }: schemas.DeliveryList) => data.map(({ id }) => id);
    const all = schemas.deliveryList.parse(await list());
    expect(idsOf(all)).toEqual([...delivered.toReversed(), failed]);
    expect(all.pagination).toEqual({ total: 3, limit: 25, offset: 0, has_more: false });
    expect(idsOf(await list('?status=failed'))).toEqual([failed]);
    expect(await list('?limit=1&offset=1')).toMatchObject({
      data: [{ id: delivered[0] }],
      pagination: { total: 3, limit: 1, offset: 1, has_more: true },
    });
  });

  test.each([
    'status=sent',
    'limit=0',
    'limit=101',
    'offset=-1',
    'limit=1&limit=2',
    'status=',
    'page=1',
  ])('the query %s is rejected', async (query) => {
    const { status, body } = await ask('GET', `/webhooks/${webhook.id}/deliveries?${query}`);
    expect(status).toBe(400);
    expect(body.code).toBe(query === 'page=1' ? 'unknown_field' : 'invalid_parameter');
  });

  test('a failed delivery is retried with the same id and the same bytes', async () => {
    receiver.behave(404);
    const id = await ping();
    const failed = await untilStatus(id, 'failed');
    expect(failed).toMatchObject({
      attempts: 2,
      last_status_code: 404,
      delivered_at: null,
      next_attempt_at: null,
    });
    receiver.behave(204);
    expect(await ask('POST', `${pathOf(id)}/redeliver`)).toMatchObject({
      status: 202,
      body: { id, event_id: failed.event_id },
    });
    const delivered = await untilStatus(id, 'delivered');
    expect(delivered.attempt_list.map(({ status_code }) => status_code)).toEqual([404, 404, 204]);
    expect(new Set(receiver.received.map(({ body }) => body))).toEqual(new Set([delivered.body]));
  });

  test('all failed deliveries are retried', async () => {
    receiver.behave(500);
    const ids = [await ping(), await ping()];
    for (const id of ids) await untilStatus(id, 'failed');
    receiver.behave(200);
    const headers = { 'idempotency-key': newId('req') };
    const retry = () =>
      api.ask('POST', `/v1/webhooks/${webhook.id}/retry-failed`, { key, headers });
    expect(await retry()).toMatchObject({ status: 202, body: { retried: 2 } });
    for (const id of ids) await untilStatus(id, 'delivered');
    expect(await retry()).toMatchObject({ status: 202, body: { retried: 2 } });
    expect((await ask('POST', `/webhooks/${webhook.id}/retry-failed`)).body).toEqual({
      retried: 0,
    });
  });

  test('a retry is rejected while the webhook is disabled', async () => {
    receiver.behave(500);
    const id = await ping();
    await untilStatus(id, 'failed');
    await ask('PATCH', `/webhooks/${webhook.id}`, { enabled: false });
    for (const [path, whose] of [
      [`${pathOf(id)}/redeliver`, key],
      [`/webhooks/${webhook.id}/retry-failed`, key],
      [`/deliveries/${id}/retry`, adminKey],
    ] as const) {
      const answer = await ask('POST', path, undefined, whose);
      expect(answer).toMatchObject({
        status: 409,
        body: { code: 'webhook_disabled', detail: expect.stringContaining('enable it') },
      });
    }
    expect(await ask('POST', '/deliveries/retry-failed', undefined, adminKey)).toMatchObject({
      status: 202,
    });
    expect((await ask('GET', pathOf(id))).body.status).toBe('failed');
    receiver.behave(200);
    await ask('PATCH', `/webhooks/${webhook.id}`, { enabled: true });
    expect(await ask('POST', `${pathOf(id)}/redeliver`)).toMatchObject({ status: 202 });
    await untilStatus(id, 'delivered');
  });

  test('a webhook replays from a time or an event', async () => {
    const { eventIds: early } = await appendTransfer(api.installation.store, []);
    const { eventIds: late } = await appendTransfer(api.installation.store, []);
    await expect
      .poll(async () => (await list('?status=delivered')).pagination.total, { timeout: 30_000 })
      .toBe(2);
    const added = await register(['transfer.created']);
    const toldTo = async () => {
      const { body } = await ask('GET', `/webhooks/${added.id}/deliveries?status=delivered`);
      return body.data.map(({ event_id }: schemas.Delivery) => event_id);
    };
    expect(await ask('POST', `/webhooks/${added.id}/replay`, { from: late[0] })).toMatchObject({
      status: 202,
      body: { accepted: true },
    });
    await expect.poll(toldTo, { timeout: 30_000 }).toEqual(late);
    await ask('POST', `/webhooks/${added.id}/replay`, { from: '2026-01-01T00:00:00+01:00' });
    await expect
      .poll(toldTo, { timeout: 30_000 })
      .toEqual(expect.arrayContaining([...early, ...late]));
  });

  test.each<[unknown, number]>([
    [{}, 400],
    [{ from: 'yesterday' }, 400],
    [{ from: '2026-02-30T00:00:00Z' }, 400],
    [{ from: '2026-01-01' }, 400],
    [{ from: 'evt_x' }, 400],
    [{ from: 5 }, 400],
    [{ from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' }, 400],
    [{ from: 'evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H' }, 404],
  ])('a replay from %j is rejected', async (json, status) => {
    expect((await ask('POST', `/webhooks/${webhook.id}/replay`, json)).status).toBe(status);
  });

  describe('deliveries of other accounts', () => {
    test('are not found', async () => {
      const id = await ping();
      const mine = await register(['transfer.created']);
      for (const [method, path] of [
        ['GET', ''],
        ['POST', '/redeliver'],
      ] as const) {
        for (const [base, whose] of [
          [pathOf(id), otherKey],
          [`/webhooks/${mine.id}/deliveries/${id}`, key],
          [pathOf(UNKNOWN), key],
          [pathOf('x'), key],
          [pathOf('%00'), key],
        ] as const) {
          expect(await ask(method, base + path, undefined, whose)).toMatchObject({
            status: 404,
            body: { code: 'not_found' },
          });
        }
        const headers = { 'idempotency-key': 'of a path with NUL' };
        expect(
          await api.ask('POST', `/v1${pathOf('%00')}/redeliver`, { key, headers }),
        ).toMatchObject({ status: 404 });
      }
    });

    test('are shown to an administrator, who can retry them', async () => {
      receiver.behave(503);
      const id = await ping();
      await untilStatus(id, 'failed');
      const failed = await ask(
        'GET',
        `/deliveries?status=failed&webhook_id=${webhook.id}`,
        undefined,
        adminKey,
      );
      expect(schemas.deliveryList.parse(failed.body).data).toMatchObject([
        { id, account_id: 'acc_default' },
      ]);
      const { id: other } = await register(['transfer.created']);
      const pinged = (await ask('POST', `/webhooks/${other}/ping`)).body.id as string;
      const all = await ask('GET', '/deliveries', undefined, adminKey);
      expect(all.body.data.slice(0, 2)).toMatchObject([
        { id: pinged, webhook_id: other },
        { id, webhook_id: webhook.id },
      ]);
      const detail = await ask('GET', `/deliveries/${id}`, undefined, adminKey);
      expect(schemas.deliveryDetail.parse(detail.body)).toMatchObject({
        id,
        last_status_code: 503,
      });
      receiver.behave(200);
      const retried = await ask('POST', `/deliveries/${id}/retry`, undefined, adminKey);
      expect(retried).toMatchObject({ status: 202, body: { id } });
      const location = retried.headers.get('location')!;
      expect(await api.ask('GET', location, { key: adminKey })).toMatchObject({
        status: 200,
        body: { id },
      });
      await untilStatus(id, 'delivered');
    });

    test('are not shown to another client under the key of an administrator', async () => {
      receiver.behave(503);
      const id = await ping();
      await untilStatus(id, 'failed');
      receiver.behave(200);
      const [{ key: admin }, { key: operator }] = [
        await api.createKey(['admin'], { account: 'acc_shared' }),
        await api.createKey(['operate'], { account: 'acc_shared' }),
      ];
      const headers = { 'idempotency-key': newId('req') };
      const retry = (whose: string) =>
        api.ask('POST', `/v1/deliveries/${id}/retry`, { key: whose, headers });
      expect(await retry(admin)).toMatchObject({ status: 202, body: { id } });
      expect(await retry(operator)).toMatchObject({
        status: 422,
        body: { code: 'idempotency_key_reused' },
      });
      expect(await retry(admin)).toMatchObject({ status: 202, body: { id } });
      await untilStatus(id, 'delivered');
    });

    test.each(['whk_1', 'dlv_01JZ8Q6W3N5V4T2R1P0M9K8J7H', ''])(
      'are not listed for the webhook "%s", which is no id',
      async (id) => {
        const path = `/deliveries?webhook_id=${id}`;
        const { status, body } = await ask('GET', path, undefined, adminKey);
        expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_parameter' });
        expect(body.errors[0].field).toBe('webhook_id');
      },
    );

    test('are retried all at once by an administrator', async () => {
      receiver.behave(500);
      const first = await ping();
      await untilStatus(first, 'failed');
      const { id: other } = await register(['transfer.created']);
      const second = (await ask('POST', `/webhooks/${other}/ping`)).body.id as string;
      const statusOf = async (id: string) =>
        (await ask('GET', `/deliveries/${id}`, undefined, adminKey)).body.status;
      await expect.poll(() => statusOf(second), { timeout: 30_000 }).toBe('failed');
      receiver.behave(200);
      const { status, body } = await ask('POST', '/deliveries/retry-failed', undefined, adminKey);
      expect({ status, enough: body.retried >= 2 }).toEqual({ status: 202, enough: true });
      for (const id of [first, second])
        await expect.poll(() => statusOf(id), { timeout: 30_000 }).toBe('delivered');
    });

    test('are listed and retried for one account', async () => {
      receiver.behave(500);
      const mine = await ping();
      await untilStatus(mine, 'failed');
      const json = { url: receiver.url, events: ['transfer.created'] };
      const theirs = (await ask('POST', '/webhooks', json, otherKey)).body.id as string;
      const pinged = await ask('POST', `/webhooks/${theirs}/ping`, undefined, otherKey);
      const other = pinged.body.id as string;
      const statusOf = async (id: string) =>
        (await ask('GET', `/deliveries/${id}`, undefined, adminKey)).body.status;
      await expect.poll(() => statusOf(other), { timeout: 30_000 }).toBe('failed');
      const failed = await ask(
        'GET',
        '/deliveries?status=failed&account=acc_other',
        undefined,
        adminKey,
      );
      expect(failed.body.data.map(({ id }: schemas.Delivery) => id)).toEqual([other]);

      receiver.behave(200);
      const path = '/deliveries/retry-failed';
      expect(await ask('POST', path, { account: 'acc_other' }, adminKey)).toMatchObject({
        status: 202,
        body: { retried: 1 },
      });
      await expect.poll(() => statusOf(other), { timeout: 30_000 }).toBe('delivered');
      expect(await statusOf(mine)).toBe('failed');
      expect(await ask('POST', path, { acount: 'acc_other' }, adminKey)).toMatchObject({
        status: 400,
      });
      await ask('POST', `${pathOf(mine)}/redeliver`);
      await untilStatus(mine, 'delivered');
    });

    test('are not retried if the webhook was removed', async () => {
      receiver.behave(500);
      const id = await ping();
      await untilStatus(id, 'failed');
      await ask('DELETE', `/webhooks/${webhook.id}`);
      expect(await ask('POST', '/deliveries/retry-failed', undefined, adminKey)).toMatchObject({
        status: 202,
        body: { retried: 0 },
      });
      expect(await ask('POST', `/deliveries/${id}/retry`, undefined, adminKey)).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
      expect((await ask('GET', `/deliveries/${id}`, undefined, adminKey)).body.status).toBe(
        'failed',
      );
    });

    test('need a scope of their own', async () => {
      for (const [method, path, required_scope] of [
        ['GET', '/deliveries', 'observe'],
        ['GET', `/deliveries/${UNKNOWN}`, 'observe'],
        ['POST', `/deliveries/${UNKNOWN}/retry`, 'operate'],
        ['POST', '/deliveries/retry-failed', 'operate'],
      ] as const) {
        expect(await ask(method, path)).toMatchObject({
          status: 403,
          body: { required_scope },
        });
      }
      for (const path of [`/deliveries/${UNKNOWN}`, '/deliveries/x']) {
        expect((await ask('GET', path, undefined, adminKey)).status).toBe(404);
      }
    });
  });
});
