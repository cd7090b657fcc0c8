import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createWebhookSender } from '../../../src/adapters/webhooks/send.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { Webhook } from '../../../src/domain/webhook.ts';
import type {
  AttemptedBatch,
  Claimed,
} from '../../../src/processes/webhooks/deliverer/attempted-batch.ts';
import { createDeliverer } from '../../../src/processes/webhooks/deliverer/deliverer.ts';
import { createFirstAttempts } from '../../../src/processes/webhooks/deliverer/first-attempts.ts';
import type { Attempt } from '../../../src/processes/webhooks/delivery-table/claim.ts';
import { createOutboxConsumer } from '../../../src/processes/webhooks/outbox.ts';
import type { Consumer } from '../../../src/projections/consumer.ts';
import { readToEnd } from '../../../src/projections/read-to-end.ts';
import { createRemovedLeaves } from '../../../src/projections/retention/removed-leaves.ts';
import { runConsumer } from '../../../src/projections/run-consumer.ts';
import { prepareBatch } from '../../../src/projections/save-batch.ts';
import { TRANSFER_EVENTS } from '../../support/domain/samples.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhooks/receiver.ts';
import {
  addWebhook,
  appendEvents,
  appendTransfer,
  runOutbox,
} from '../../support/webhooks/webhooks.ts';

describeWithPostgres('first attempts', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8' });
    // Rows of pending deliveries are gone soon. This table keeps who had one.
    await installation.sql.unsafe(`
      create table public.once_pending (event_id text);
      create function public.keep() returns trigger language plpgsql as
        'begin insert into public.once_pending values (new.event_id); return new; end';
      create trigger keep after insert on work.pending_deliveries
        for each row execute function public.keep();
      create function public.fail() returns trigger language plpgsql as
        $$begin raise 'the disk is full'; end$$;`);
  });
  afterAll(() => installation?.close());

  let receiver: WebhookReceiver;
  let webhookId: string;
  let consumer: Consumer;
  let stopping: AbortController;
  let running: Promise<void>;
  const undo: (() => Promise<unknown>)[] = [];
  beforeEach(async () => {
    receiver = await startWebhookReceiver();
    undo.push(() => receiver.close());
    stopping = new AbortController();
    const deliverer = createDeliverer(
      {
        sql: installation.derived,
        vault: installation.vault,
        logger: pino({ level: 'silent' }),
        sender: createWebhookSender({ allowedCidrs: installation.config.webhookAllowCidrs }),
        metrics: { attempted: () => undefined, ended: () => undefined },
        retryDelays: [3_600_000],
        graceMs: 5_000,
      },
      stopping.signal,
    );
    running = deliverer.run();
    undo.push(async () => {
      stopping.abort();
      await running;
    });
    webhookId = await addWebhook(installation, receiver.url, [
      'transfer.created',
      'transfer.cancelled',
    ]);
    await runOutbox(installation);
    consumer = createOutboxConsumer(installation.store, deliverer.attemptFirst);
    // A new webhook is not known to answer, so its first delivery is claimed.
    await firstAnsweredInTime();
    receiver.received.splice(0);
  });
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
    await installation.sql`delete from work.outbox_webhooks`;
    await installation.sql`delete from work.deliveries`;
    await installation.sql`delete from work.pending_deliveries`;
  });

  /** Appends a transfer, and returns the ids of its events. */
  const happen = async (...steps: Parameters<typeof appendTransfer>[1]) =>
    (await appendTransfer(installation.store, steps)).eventIds;

  /**
   * Appends transfers and saves each, until the receiver answers in the time for which rows wait. On
   * a busy machine it may not. Returns the event of the last one.
   */
  async function firstAnsweredInTime(): Promise<string | undefined> {
    for (;;) {
      const [event] = await happen();
      await save();
      const isFirst = (await rowOf(event))?.status === 'delivered';
      await ended(event);
      if (isFirst) return event;
    }
  }

  /** Saves all events that the outbox has not saved, as one batch. */
  async function save(): Promise<void> {
    const { store, derived: sql } = installation;
    const [{ position: from }] = await sql<[{ position: bigint }]>`
      select position from work.checkpoints where name = 'outbox'`;
    const events: StoredEvent[] = [];
    let to = from;
    for await (const batch of readToEnd(store, consumer.streams, from)) {
      events.push(...batch.events);
      to = batch.position;
    }
    await (
      await prepareBatch(sql, consumer, events, createRemovedLeaves(store, null), { from, to })
    ).save();
  }

  const rowOf = async (eventId: string | undefined) => {
    const [row] = await installation.sql<
      {
        id: string;
        status: string;
        attempts: number;
        created_at: string;
        last_status_code: number | null;
      }[]
    >`select id, status, attempts, created_at, last_status_code
        from work.deliveries where event_id = ${eventId ?? null}`;
    return row;
  };
  const pendingOf = async (eventId: string | undefined) =>
    (
      await installation.sql<{ tries: number; claimed: boolean; later: boolean }[]>`
        select tries, claim_id is not null as claimed, due_at > now() + interval '50 minutes' as later
          from work.pending_deliveries where event_id = ${eventId ?? null}`
    )[0];
  const wasPending = async (eventId: string | undefined) =>
    (
      await installation.sql`
      select from public.once_pending where event_id = ${eventId ?? null}`
    ).length > 0;
  const ended = (eventId: string | undefined) =>
    until(`${eventId} is delivered`, async () => (await rowOf(eventId))?.status === 'delivered');
  const arrived = () => receiver.received.map(({ eventId }) => eventId);
  const arrivals = (eventId: string | undefined) => arrived().filter((id) => id === eventId).length;

  it('are made before a delivery is stored, which is written once', async () => {
    const event = await firstAnsweredInTime();
    const row = await rowOf(event);
    expect(row).toMatchObject({ status: 'delivered', attempts: 1, last_status_code: 200 });
    const attempts = await installation.sql`
      select number, status_code, response_body, at >= ${row!.created_at} as after
        from work.delivery_attempts where delivery_id = ${row!.id}`;
    expect([...attempts]).toEqual([
      { number: 1, status_code: 200, response_body: 'said 200', after: true },
    ]);
    expect([await wasPending(event), arrivals(event)]).toEqual([false, 1]);
  });

  it('follow the schedule of retries after a failure', async () => {
    receiver.behave(500);
    const [event] = await happen();
    await save();
    await until('the failure is recorded', async () => (await rowOf(event))?.attempts === 1);
    expect(await rowOf(event)).toMatchObject({ status: 'pending' });
    expect(await pendingOf(event)).toEqual({ tries: 1, claimed: false, later: true });
    expect(arrivals(event)).toBe(1);
  });

  it('of one transfer are made in the order of its events, also across batches', async () => {
    receiver.behave(({ eventId }) => (eventId === created ? { status: 200, afterMs: 500 } : 200));
    const { store } = installation;
    const { transferId, eventIds } = await appendTransfer(store, []);
    const [created] = eventIds;
    await save();
    const [cancelled] = await appendEvents(store, `transfer-${transferId}`, [
      TRANSFER_EVENTS.cancelled,
    ]);
    const [other] = await happen();
    await save();
    // The first is under way, so the second waits, and the other transfer does not.
    await until('the other has arrived', () => arrivals(other) === 1);
    expect(arrived()).toEqual([created, other]);
    expect(await pendingOf(cancelled)).toMatchObject({ tries: 0, claimed: true });
    await ended(cancelled);
    expect(arrived()).toEqual([created, other, cancelled]);
  });

  it('that wait for an earlier one are not made after the end of the process', async () => {
    receiver.behave({ status: 200, afterMs: 300 });
    const [created, cancelled] = await happen('cancelled');
    const saving = save();
    await until('the first has arrived', () => arrivals(created) === 1);
    stopping.abort();
    await saving;
    await running;
    expect(arrivals(cancelled)).toBe(0);
    expect(await rowOf(created)).toMatchObject({ status: 'delivered', attempts: 1 });
    await until('the second can be claimed', async () => !(await pendingOf(cancelled))?.claimed);
  });

  it('that take longer are stored with their claim, and recorded when they end', async () => {
    receiver.behave({ status: 202, afterMs: 400 });
    const [event] = await happen();
    await save();
    expect(await rowOf(event)).toMatchObject({ status: 'pending', attempts: 0 });
    expect(await pendingOf(event)).toEqual({ tries: 0, claimed: true, later: false });
    await ended(event);
    expect(await rowOf(event)).toMatchObject({ attempts: 1, last_status_code: 202 });
    expect(arrivals(event)).toBe(1);
  });

  it('wait for what another process sends to the same webhook', async () => {
    const { sql } = installation;
    const older = newId('dlv');
    await sql`
      insert into work.pending_deliveries
        (delivery_id, webhook_id, event_id, transfer_id, claim_id, lease_until)
      values (${older}, ${webhookId}, 'evt_0', 'txr_0', 'clm_other', now() + interval '1 hour')`;
    const [event] = await happen();
    await save();
    await ended(event);
    expect([await wasPending(event), arrivals(event)]).toEqual([true, 1]);
  });

  it('are not repeated while batches cannot be stored', async () => {
    const { sql } = installation;
    const [event] = await happen();
    await sql.unsafe(`create trigger fail before insert on work.deliveries
      for each row execute function public.fail()`);
    for (let round = 0; round < 3; round++) await expect(save()).rejects.toThrow('disk is full');
    expect(arrivals(event)).toBe(1);
    await sql.unsafe('drop trigger fail on work.deliveries');
    await save();
    await ended(event);
    expect([await wasPending(event), arrivals(event)]).toEqual([true, 2]);
    const next = await firstAnsweredInTime();
    expect([await wasPending(next), arrivals(next)]).toEqual([false, 1]);
  });

  it('keep a delivery that exists, and send what is new with it', async () => {
    const [known, unknown] = [...(await happen()), ...(await happen())];
    await installation.sql`
      insert into work.deliveries
        (id, webhook_id, account_id, event_id, event_type, body, status, attempts, ended_at)
      values (${newId('dlv')}, ${webhookId}, 'acc_default', ${known ?? ''}, 'transfer.created', '{}',
              'failed', 4, now())`;
    await save();
    await ended(unknown);
    expect(await rowOf(unknown)).toMatchObject({ attempts: 1 });
    await sleep(50);
    expect(arrivals(unknown)).toBe(1);
    expect(await rowOf(known)).toMatchObject({ status: 'failed', attempts: 4 });
  });

  it('are made once each and in order, however many batches follow each other', async () => {
    const transfers = await Promise.all(Array.from({ length: 600 }, () => happen('cancelled')));
    const following = new AbortController();
    const deps = { ...installation, sql: installation.derived };
    const work = runConsumer(deps, consumer, following.signal, () => undefined);
    undo.push(async () => {
      following.abort();
      await work;
    });
    await until('all are delivered', async () => {
      const [row] = await installation.sql<[{ done: number }]>`
        select count(*)::integer as done from work.deliveries
         where status = 'delivered' and event_id = any(${transfers.flat()}::text[])`;
      return row.done === 2 * transfers.length;
    });
    const order = arrived();
    expect(order.toSorted()).toEqual(transfers.flat().toSorted());
    for (const [created = '', cancelled = ''] of transfers)
      expect(order.indexOf(created)).toBeLessThan(order.indexOf(cancelled));
  });

  describe('offered to the deliverer', () => {
    let added: Claimed[];
    let places: number;
    let isBehind: boolean;
    let offer: (...transfers: string[]) => Promise<AttemptedBatch>;
    beforeEach(async () => {
      added = [];
      places = 256;
      isBehind = false;
      const attemptFirst = createFirstAttempts({
        sql: installation.sql,
        limits: {
          capacity: () => ({ healthy: 2_048, unproven: 512, each: 8, webhooks: new Map() }),
          answersWithin: () => true,
          places: () => places,
          add: (_, work) => added.push(work),
          drain: () => [],
        },
        release: async () => undefined,
        signal: new AbortController().signal,
      });
      const webhook = { webhook_id: webhookId, url: receiver.url, previous: null } as Webhook;
      offer = (...transfers) =>
        attemptFirst({
          deliveries: transfers.map((transfer_id) => ({
            webhook_id: webhookId,
            account_id: 'acc_default',
            event_id: newId('evt'),
            event_type: 'transfer.created',
            transfer_id,
            body: '{}',
          })),
          webhooks: new Map([[webhookId, webhook]]),
          isBehind,
        });
      (await offer()).afterSave(true);
    });

    it('are as many as it has places, twice if it is prompt', async () => {
      places = 1;
      const { rows } = await offer('txr_1', 'txr_2', 'txr_3');
      expect(added).toHaveLength(2);
      expect(rows().map(({ claim_id }) => claim_id === null)).toEqual([false, false, true]);
    });

    describe('while the outbox is behind and a webhook has no place', () => {
      beforeEach(async () => {
        places = 1;
        await offer('txr_1', 'txr_2');
        isBehind = true;
      });
      const attempt = { next: { status: 'delivered' } } as Attempt;

      it('wait for a place', async () => {
        const next = offer('txr_3');
        added[0]?.first?.attemptEnded(attempt);
        expect((await next).rows()[0]?.claim_id).not.toBeNull();
        expect(added).toHaveLength(3);
      });

      it('are left to the deliverers if none comes', async () => {
        expect((await offer('txr_3')).rows()[0]?.claim_id).toBeNull();
      });
    });

    it('begin 512 requests at once to all webhooks', async () => {
      places = 1_000;
      await offer(...Array.from({ length: 600 }, (_, i) => `txr_${i}`));
      expect(added).toHaveLength(512);
    });

    it('stand back while released work waits for its row', async () => {
      const first = await offer('txr_1');
      added[0]?.first?.attemptAbandoned();
      const second = await offer('txr_1');
      first.rows();
      first.afterSave(true);
      second.afterSave(true);
      expect(added).toHaveLength(1);
      await offer('txr_1');
      expect(added).toHaveLength(2);
    });

    it('stand back for work that is released while they are prepared', async () => {
      await offer('txr_1');
      const second = offer('txr_1');
      added[0]?.first?.attemptAbandoned();
      expect((await second).rows()[0]?.claim_id).toBeNull();
      expect(added).toHaveLength(1);
    });

    it('stand back for work that is released after its row has left', async () => {
      const first = await offer('txr_1');
      first.rows();
      expect(added[0]?.first?.attemptAbandoned()).toBe(false);
      (await offer('txr_1')).afterSave(true);
      first.afterSave(true);
      expect(added).toHaveLength(1);
      added[0]?.first?.claimEnded();
      await offer('txr_1');
      expect(added).toHaveLength(2);
    });

    it('are lost with a batch that is not stored', async () => {
      const { afterSave } = await offer('txr_1');
      afterSave(false);
      expect(added[0]?.first?.isBatchLost()).toBe(true);
      await offer('txr_2');
      expect(added).toHaveLength(1);
    });
  });
});
