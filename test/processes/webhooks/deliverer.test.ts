import pino from 'pino';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createWebhookSender } from '../../../src/adapters/webhooks/send.ts';
import { serviceSignature, signingKeys } from '../../../src/adapters/webhooks/signature.ts';
import { rotateWebhookSecret, updateWebhook } from '../../../src/commands/webhooks.ts';
import { createDeliverer } from '../../../src/processes/webhooks/deliverer/deliverer.ts';
import {
  ping,
  redeliver,
  retryFailedDeliveries,
} from '../../../src/processes/webhooks/deliveries.ts';
import { getDelivery } from '../../../src/processes/webhooks/delivery-table/read.ts';
import { createCertificates } from '../../support/network/certificates.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';
import {
  type Behaviour,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../support/webhooks/receiver.ts';
import { addWebhook, appendTransfer, runOutbox } from '../../support/webhooks/webhooks.ts';

const MINUTE = 60_000;
/** How long a test waits for a receiver that never answers. */
const NEVER_ANSWERED_MS = 2_000;
const DELAYS = [MINUTE, 5 * MINUTE, 30 * MINUTE];

describeWithPostgres('the deliverer', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8' });
  });
  afterAll(() => installation?.close());

  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
    await installation.sql`truncate work.deliveries, work.pending_deliveries`;
    now = Date.now();
  });

  /** A clock that stands still until a test moves it. */
  let now = Date.now();

  /** Moves the clock behind what Postgres has written: its times have microseconds. */
  function moveClock(): void {
    now = Math.max(now, Date.now() + 1);
  }

  /** Only tests of receivers that never answer have a short limit: a busy machine misses it. */
  function startDeliverer({ graceMs = 0, withinMs = 60_000 } = {}): { stop(): Promise<void> } {
    const stopping = new AbortController();
    const running = createDeliverer(
      {
        sql: installation.derived,
        vault: installation.vault,
        logger: pino({ level: 'silent' }),
        sender: createWebhookSender({
          allowedCidrs: installation.config.webhookAllowCidrs,
          withinMs,
        }),
        metrics: { attempted: () => undefined, ended: () => undefined },
        retryDelays: DELAYS,
        graceMs,
        clock: () => new Date(now),
      },
      stopping.signal,
    ).run();
    const stop = async () => {
      stopping.abort();
      await running;
    };
    undo.push(stop);
    return { stop };
  }

  async function receiver(behaviour?: Behaviour, options = {}): Promise<WebhookReceiver> {
    const started = await startWebhookReceiver({ ...options, ...(behaviour ? { behaviour } : {}) });
    undo.push(() => started.close());
    return started;
  }

  /** Adds a webhook that gets only the pings of this test. */
  async function webhookAt(url: string, secret?: string): Promise<string> {
    const webhookId = await addWebhook(
      installation,
      url,
      ['transfer.created', 'transfer.in_progress', 'transfer.completed'],
      {
        accountId: accountOf(url),
        ...(secret ? { secret } : {}),
      },
    );
    await runOutbox(installation);
    moveClock();
    return webhookId;
  }

  async function send(webhookId: string): Promise<string> {
    const id = await ping(installation.sql, { webhookId, accountId: 'acc_default' });
    moveClock();
    return id;
  }

  const detail = async (id: string) =>
    (await getDelivery(installation.sql, id)) ?? expect.fail(`there is no ${id}`);
  const attempted = (id: string, times: number) =>
    until(`${id} is attempted ${times} times`, async () => {
      const found = await detail(id);
      return found.attempts >= times ? found : null;
    });

  it('signs requests with the secret, and adds Standard Webhooks headers', async () => {
    const { url, received } = await receiver();
    const webhookId = await webhookAt(url, 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0');
    startDeliverer();
    const delivery = await attempted(await send(webhookId), 1);
    expect(delivery).toMatchObject({
      status: 'delivered',
      last_status_code: 200,
      last_error: null,
      next_attempt_at: null,
    });
    expect(delivery.attempt_list).toMatchObject([
      { number: 1, status_code: 200, error: null, response_body: 'said 200' },
    ]);
    const [request] = received;
    expect(request?.body).toBe(delivery.body);
    expect(request?.headers['x-service-signature']).toBe(
      serviceSignature(signingKeys('whsec_c2VjcmV0c2VjcmV0c2VjcmV0'), delivery.body),
    );
    const headers = request?.headers as Record<string, string>;
    expect(new Webhook('c2VjcmV0c2VjcmV0c2VjcmV0').verify(delivery.body, headers)).toMatchObject({
      id: delivery.event_id,
      type: 'ping',
    });
    expect(headers['webhook-id']).toBe(delivery.event_id);
  });

  it('retries each failure after 1, 5 and 30 minutes, then gives up', LONG, async () => {
    const certificates = await createCertificates();
    const kinds: [Behaviour | 'bad certificate', string | RegExp][] = [
      [302, /^answered 302, a redirect to https:\/\/elsewhere\.example\//],
      [404, /^answered 404/],
      [500, /^answered 500/],
      ['hang', /^no answer within/],
      ['slow_headers', /^no answer within/],
      ['reset', /closed the connection without an answer/],
      ['bad certificate', /is not signed by a known authority/],
    ];
    const healthy = await webhookAt((await receiver(204)).url);
    startDeliverer({ withinMs: NEVER_ANSWERED_MS });
    const failing = await Promise.all(
      kinds.map(async ([kind, words]) => {
        const bad = kind === 'bad certificate';
        const { url, received } = bad
          ? await receiver(200, { certificate: certificates.untrusted })
          : await receiver(kind);
        return { id: await send(await webhookAt(url)), words, received, bad };
      }),
    );

    for (const [i, delay] of [...DELAYS, null].entries()) {
      const attempts = i + 1;
      const found = await Promise.all(failing.map(({ id }) => attempted(id, attempts)));
      for (const [k, delivery] of found.entries()) {
        expect(delivery.last_error).toMatch(failing[k]?.words as RegExp);
        const last = delivery.attempt_list.at(-1) ?? expect.fail();
        const end = Date.parse(last.at) + last.duration_ms;
        if (delay === null)
          expect(delivery).toMatchObject({ status: 'failed', next_attempt_at: null, attempts: 4 });
        else expect(Date.parse(delivery.next_attempt_at as string) - end).toBe(delay);
      }
      if (delay === null) break;

      const due = found.map(({ next_attempt_at }) => Date.parse(next_attempt_at as string));
      now = Math.min(...due) - 1;
      // Later deliveries were claimed by the moved clock, and these were not.
      await attempted(await send(healthy), 1);
      for (const { id } of failing) expect((await detail(id)).attempts).toBe(attempts);
      now = Math.max(...due);
      for (const [k, { id }] of failing.entries()) {
        const next = (await attempted(id, attempts + 1)).attempt_list.at(-1);
        expect(Date.parse(next?.at as string)).toBeGreaterThanOrEqual(due[k] as number);
      }
    }
    for (const { received, bad } of failing) {
      expect(received).toHaveLength(bad ? 0 : 4);
      expect(new Set(received.map(({ body }) => body)).size).toBeLessThanOrEqual(1);
    }
  });

  it.each(['slow_body', 'huge_body'] as const)(
    'treats 200 with a %s as delivered',
    async (behaviour) => {
      const webhookId = await webhookAt((await receiver(behaviour)).url);
      startDeliverer();
      expect(await attempted(await send(webhookId), 1)).toMatchObject({
        status: 'delivered',
        attempts: 1,
      });
    },
  );

  it('sends a failed delivery again on request, with the same bytes', async () => {
    const { url, received, behave } = await receiver(500);
    const webhookId = await webhookAt(url);
    startDeliverer();
    const ids = [await send(webhookId), await send(webhookId)];
    for (let attempts = 1; attempts <= 4; attempts++) {
      for (const id of ids) await attempted(id, attempts);
      now += 31 * MINUTE;
    }
    behave(200);
    await redeliver(installation.sql, { deliveryId: ids[0] as string, enabled: true });
    expect(await attempted(ids[0] as string, 5)).toMatchObject({
      status: 'delivered',
      attempts: 5,
    });
    expect(await detail(ids[1] as string)).toMatchObject({ status: 'failed' });
    expect(
      await retryFailedDeliveries(installation.sql, { webhook_id: webhookId, enabled: true }),
    ).toBe(1);
    expect(await attempted(ids[1] as string, 5)).toMatchObject({ status: 'delivered' });
    for (const id of ids) {
      const { event_id, body } = await detail(id);
      expect(
        received.filter(({ eventId }) => eventId === event_id).map((request) => request.body),
      ).toEqual(Array(5).fill(body));
    }
  });

  it("sends a transfer's events in order, even after a failed attempt", async () => {
    const { url, received, behave } = await receiver();
    await webhookAt(url);
    const happens = () =>
      appendTransfer(installation.store, ['admitted', 'started', 'completed'], {
        account_id: accountOf(url),
      });
    const transfers = await Promise.all(Array.from({ length: 40 }, happens));
    await runOutbox(installation);
    moveClock();
    startDeliverer();
    await until('all have arrived', () => received.length === 120);
    const toldOf = (transferId: string) =>
      received.filter(({ body }) => body.includes(transferId)).map(({ eventId }) => eventId);
    for (const { transferId, eventIds } of transfers)
      expect(toldOf(transferId)).toEqual([eventIds[0], eventIds[2], eventIds[3]]);

    const { transferId, eventIds } = await happens();
    const [created, , started, completed] = eventIds;
    behave(({ eventId }) => (eventId === created ? 500 : 200));
    await runOutbox(installation);
    moveClock();
    await until('the others have arrived', () => toldOf(transferId).length === 3);
    behave(200);
    now += 2 * MINUTE;
    await until('the first one is sent again', () => toldOf(transferId).length === 4);
    expect(toldOf(transferId)).toEqual([created, started, completed, created]);
  });

  it('delays no webhook because another one hangs', async () => {
    const [dead, healthy] = [await receiver('hang'), await receiver()];
    const [deadId, healthyId] = [await webhookAt(dead.url), await webhookAt(healthy.url)];
    for (let i = 0; i < 50; i++) await send(deadId);
    startDeliverer();
    await until('it has as many as it may have', () => dead.received.length === 8);
    for (let i = 0; i < 50; i++) await send(healthyId);
    await until('the healthy one has all', () => healthy.received.length === 50);
    expect(dead.received).toHaveLength(8);
  });

  it('holds the deliveries of a disabled webhook until it is enabled', async () => {
    const { url, received, behave } = await receiver(500);
    const webhookId = await webhookAt(url);
    startDeliverer();
    const id = await send(webhookId);
    await attempted(id, 1);
    await updateWebhook(installation.commands, webhookId, { enabled: false }, CAUSE);
    await runOutbox(installation);
    now += 2 * MINUTE;
    const sentinel = await webhookAt((await receiver()).url);
    await attempted(await send(sentinel), 1);
    expect(received).toHaveLength(1);
    behave(200);
    await updateWebhook(installation.commands, webhookId, { enabled: true }, CAUSE);
    await runOutbox(installation);
    expect(await attempted(id, 2)).toMatchObject({ status: 'delivered' });
  });

  it('treats a delivery that it cannot sign as a failure until a rotation', async () => {
    const { url, received } = await receiver();
    const webhookId = await webhookAt(url);
    await installation.sql`
      update work.vault set ciphertext = set_byte(ciphertext, 0, get_byte(ciphertext, 0) # 1)
       where id = (select state ->> 'secret_record' from work.outbox_webhooks
        where webhook_id = ${webhookId})`;
    startDeliverer();
    const id = await send(webhookId);
    const tried = await attempted(id, 1);
    expect(tried).toMatchObject({
      status: 'pending',
      last_error: expect.stringContaining('rotate'),
    });
    const dueAt = Date.parse(tried.next_attempt_at ?? '');
    expect(dueAt - Date.parse(tried.attempt_list[0]?.at ?? '')).toBe(MINUTE);
    expect(received).toEqual([]);
    await rotateWebhookSecret(
      installation.commands,
      webhookId,
      { secret: 'the new secret', grace: '1h' },
      CAUSE,
    );
    await runOutbox(installation);
    now = dueAt;
    expect(await attempted(id, 2)).toMatchObject({ status: 'delivered' });
    expect(received[0]?.headers['x-service-signature']).toBe(
      serviceSignature(signingKeys('the new secret'), received[0]?.body ?? ''),
    );
  });

  it('leaves room for webhooks that answer, however many hang', async () => {
    const [dead, healthy] = [await receiver('hang'), await receiver()];
    const healthyId = await webhookAt(healthy.url);
    startDeliverer();
    await attempted(await send(healthyId), 1);
    const { sql } = installation;
    // More webhooks than there is room for claims, of eight each.
    await sql`
      insert into work.outbox_webhooks (webhook_id, account_id, live, revision, position, state)
      select 'whk_dead_' || n, account_id, true, revision, position,
             state || ${sql.json({ url: dead.url })}
        from work.outbox_webhooks, generate_series(1, 200) as n where webhook_id = ${healthyId}`;
    undo.push(() => sql`delete from work.outbox_webhooks where webhook_id like 'whk_dead_%'`);
    await sql`
      with dead as (
        insert into work.deliveries (id, webhook_id, account_id, event_id, event_type, body)
        select 'dlv_dead_' || n, 'whk_dead_' || n % 200 + 1, 'acc_dead', 'evt_' || n, 'ping', '{}'
          from generate_series(1, 2000) as n
        returning id, webhook_id, event_id
      )
      insert into work.pending_deliveries (delivery_id, webhook_id, event_id) select * from dead`;
    moveClock();
    await until('no more of them start', async () => {
      const [row] = await sql<
        { claimed: number }[]
      >`select count(*)::integer as claimed from work.pending_deliveries where claim_id is not null`;
      return row?.claimed === 512;
    });
    for (let i = 0; i < 50; i++) await send(healthyId);
    await until('the healthy one has all', () => healthy.received.length === 51);
    expect(dead.received.length).toBeLessThanOrEqual(512);
  });

  it('signs with both secrets during a rotation, then with the new one', async () => {
    const { url, received } = await receiver();
    const webhookId = await webhookAt(url, 'the old secret');
    startDeliverer();
    await rotateWebhookSecret(
      installation.commands,
      webhookId,
      { secret: 'the new secret', grace: '1h' },
      CAUSE,
    );
    await runOutbox(installation);
    await attempted(await send(webhookId), 1);
    now += 61 * MINUTE;
    await attempted(await send(webhookId), 1);
    const [during, after] = received;
    expect(during?.headers['x-service-signature']).toBe(
      serviceSignature(signingKeys('the old secret'), during?.body ?? ''),
    );
    expect(String(during?.headers['webhook-signature']).split(' ')).toHaveLength(2);
    expect(after?.headers['x-service-signature']).toBe(
      serviceSignature(signingKeys('the new secret'), after?.body ?? ''),
    );
    expect(String(after?.headers['webhook-signature']).split(' ')).toHaveLength(1);
  });

  describe('that is stopped', () => {
    it('waits for requests in progress', async () => {
      const { url, received } = await receiver('hang');
      const webhookId = await webhookAt(url);
      const deliverer = startDeliverer({ graceMs: 30_000, withinMs: NEVER_ANSWERED_MS });
      const id = await send(webhookId);
      await until('it is under way', () => received.length === 1);
      await deliverer.stop();
      expect(await detail(id)).toMatchObject({ status: 'pending', attempts: 1 });
    });

    it('returns slow requests, and another deliverer sends them at once', async () => {
      const { url, received, behave } = await receiver('hang');
      const webhookId = await webhookAt(url);
      const deliverer = startDeliverer({ graceMs: 10 });
      const id = await send(webhookId);
      await until('it is under way', () => received.length === 1);
      await deliverer.stop();
      expect(await detail(id)).toMatchObject({ status: 'pending', attempts: 0 });
      behave(200);
      startDeliverer();
      expect(await attempted(id, 1)).toMatchObject({ status: 'delivered' });
      expect(received.map(({ body }) => body)).toEqual([received[0]?.body, received[0]?.body]);
    });
  });

  it('records nothing for a claim that has gone to another deliverer', async () => {
    const { url, received } = await receiver('hang');
    const webhookId = await webhookAt(url);
    startDeliverer({ withinMs: NEVER_ANSWERED_MS });
    const id = await send(webhookId);
    await until('it is under way', () => received.length === 1);
    await installation.sql`
      update work.pending_deliveries set claim_id = 'clm_other' where delivery_id = ${id}`;
    const sentinel = await webhookAt(url);
    await attempted(await send(sentinel), 1);
    expect(await detail(id)).toMatchObject({ status: 'pending', attempts: 0, attempt_list: [] });
  });

  it('takes over the deliveries of a crashed deliverer when their leases expire', async () => {
    const { url, received } = await receiver();
    const webhookId = await webhookAt(url);
    const id = await send(webhookId);
    await installation.sql`
      update work.pending_deliveries
         set claim_id = 'clm_gone', lease_until = ${new Date(now + 30_000)}
       where delivery_id = ${id}`;
    startDeliverer();
    await attempted(await send(webhookId), 1);
    expect((await detail(id)).attempts).toBe(0);
    now += 30_001;
    expect(await attempted(id, 1)).toMatchObject({ status: 'delivered' });
    expect(received).toHaveLength(2);
  });
});

function accountOf(url: string): string {
  return `acc_${new URL(url).port}`;
}
