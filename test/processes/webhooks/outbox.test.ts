import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { abortTransfer } from '../../../src/commands/transfers.ts';
import { removeWebhook, updateWebhook } from '../../../src/commands/webhooks.ts';
import { type PayloadType, payloadSchema } from '../../../src/contract/webhooks/payloads.ts';
import type { CheckpointSigned } from '../../../src/domain/proof/signed-checkpoint.ts';
import { WEBHOOK_EVENT_TYPES } from '../../../src/domain/webhook.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { failDeliveriesOfRemoved } from '../../../src/processes/webhooks/delivery-table/removed-webhooks.ts';
import { createOutboxConsumer, rebuildOutbox } from '../../../src/processes/webhooks/outbox.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import {
  AFTER_EVENTS,
  batchCompleted,
  batchCreated,
  endpointConfigured,
  flowCreated,
  keyCreated,
  LISTING_ERROR,
  RUN_COMPLETED,
  T1,
  TRANSFER_EVENTS,
  transferCreated,
} from '../../support/domain/samples.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import {
  addWebhook,
  appendEvents,
  appendTransfer,
  runOutbox,
} from '../../support/webhooks/webhooks.ts';

const URL = 'https://receiver.example/hook';

interface Row {
  webhook_id: string;
  event_id: string;
  event_type: PayloadType;
  transfer_id: string | null;
  body: string;
}

describeWithPostgres('the outbox', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  // Webhooks of earlier tests would get the events too.
  beforeEach(async () => {
    const left = await installation.sql<
      { webhook_id: string }[]
    >`select webhook_id from work.outbox_webhooks`;
    for (const { webhook_id } of left)
      await removeWebhook(installation.commands, webhook_id, CAUSE);
    await runOutbox(installation);
    await installation.sql`delete from work.deliveries`;
  });

  async function rows(webhookId?: string): Promise<Row[]> {
    await runOutbox(installation);
    const { sql } = installation;
    return sql<Row[]>`
      select webhook_id, event_id, event_type, transfer_id, body from work.deliveries
       where ${webhookId ? sql`webhook_id = ${webhookId}` : sql`true`}
       order by event_id, webhook_id`;
  }

  const types = async (webhookId?: string) =>
    (await rows(webhookId)).map(({ event_type }) => event_type);

  it('delivers each subscribed event, with the event id and the transfer', async () => {
    const webhookId = await addWebhook(installation, URL, [
      'transfer.created',
      'transfer.completed',
    ]);
    const { transferId, eventIds } = await appendTransfer(installation.store, [
      'admitted',
      'started',
      'completed',
    ]);
    const [created, completed, ...more] = await rows();
    expect(more).toEqual([]);
    expect(created).toMatchObject({
      webhook_id: webhookId,
      event_id: eventIds[0],
      event_type: 'transfer.created',
      transfer_id: transferId,
    });
    expect(completed).toMatchObject({ event_id: eventIds[3], event_type: 'transfer.completed' });
    expect(JSON.parse(completed?.body ?? '')).toEqual({
      id: eventIds[3],
      type: 'transfer.completed',
      created_at: expect.any(String),
      data: {
        transfer_id: transferId,
        file_name: 'a.csv',
        size_bytes: 1000,
        status: 'completed',
        source: 'sftp://from/a.csv',
        destination: 'sftp://to/in/a.csv',
        duration_ms: 5000,
        checksum_sha256: 'ab'.repeat(32),
      },
    });
  });

  it('keeps no transaction idle while it reads a slow event store', async () => {
    const webhookId = await addWebhook(installation, URL, ['transfer.in_progress']);
    await runOutbox(installation);
    const { transferId } = await appendTransfer(installation.store, ['admitted']);
    await runOutbox(installation);
    await appendEvents(installation.store, `transfer-${transferId}`, [TRANSFER_EVENTS.started]);
    const open: number[] = [];
    const watched: EventStore = {
      ...installation.store,
      async read(...args) {
        const found = await installation.sql`
          select from pg_stat_activity
           where datname = current_database() and state like 'idle in transaction%'`;
        open.push(found.length);
        return installation.store.read(...args);
      },
    };
    await catchUpIfIdle(installation, createOutboxConsumer(watched));
    expect(open).toEqual([0]);
    expect(await types(webhookId)).toEqual(['transfer.in_progress']);
  });

  it('writes payloads of every type as they are documented', async () => {
    const { store } = installation;
    await addWebhook(installation, URL, [...WEBHOOK_EVENT_TYPES]);
    await appendTransfer(store, ['admitted', 'started', 'retry', 'started', 'failed']);
    await appendTransfer(store, ['admitted', 'started', 'completed']);
    await appendTransfer(store, ['cancelled']);
    const { versioned, marked, unmarked, deleted, moved, kept } = AFTER_EVENTS;
    const { admitted, started } = TRANSFER_EVENTS;
    const stories = [
      [marked, deleted],
      [unmarked, kept],
      [marked, moved],
    ];
    for (const [i, steps] of stories.entries()) {
      const after = { source: 'delete', destination_marker: '.done' } as const;
      const data = transferCreated({ transfer_id: `txr_after_${i}`, after });
      const created = { type: 'transfer.created', data };
      const events = [created, admitted, started, versioned, ...steps];
      await appendEvents(store, `transfer-txr_after_${i}`, events);
    }
    const { endpoint_id, name } = endpointConfigured();
    const lost = {
      endpoint_id,
      name,
      protocol: 'sftp',
      host: 'files.example.com',
      last_success_at: null,
      detected_at: T1,
    };
    await appendEvents(
      store,
      `endpoint-${endpoint_id}`,
      [
        { type: 'endpoint.configured', data: endpointConfigured() },
        {
          type: 'endpoint.connectivity_lost',
          data: { ...lost, error: { code: 'timeout', message: 'no answer' } },
        },
      ],
      null,
    );
    await appendEvents(store, 'batch-bat_1', [
      { type: 'batch.created', data: batchCreated() },
      batchCompleted(),
    ]);
    const { flow_id, run_id } = RUN_COMPLETED;
    const flow = { flow_id, name: 'orders' };
    await appendEvents(store, `flow-${flow_id}`, [
      { type: 'flow.created', data: flowCreated() },
      { type: 'flow.run_completed', data: RUN_COMPLETED },
      { type: 'flow.run_failed', data: { ...flow, run_id, error: LISTING_ERROR, failed_at: T1 } },
      { type: 'flow.recovered', data: { ...flow, failed_since: T1, recovered_at: T1 } },
    ]);
    const { key_id, expires_at } = keyCreated();
    await appendEvents(store, `key-${key_id}`, [
      { type: 'key.created', data: keyCreated() },
      { type: 'key.expiring_soon', data: { key_id, name: 'ci', expires_at, days_remaining: 7 } },
    ]);
    await checkpointNow(installation, CAUSE);

    const told = await rows();
    expect(new Set(told.map(({ event_type }) => event_type))).toEqual(new Set(WEBHOOK_EVENT_TYPES));
    for (const { event_type, body } of told) {
      const payload = JSON.parse(body);
      expect(payloadSchema(event_type).parse(payload)).toEqual(payload);
    }
    const second = told.filter(({ event_type }) => event_type === 'transfer.in_progress')[1];
    expect(JSON.parse(second?.body ?? '').data).toMatchObject({
      status: 'in_progress',
      retry_count: 1,
    });
  });

  it('delivers each checkpoint once, to webhooks of every account that subscribe to it', async () => {
    const ours = await addWebhook(installation, URL, ['log.checkpoint']);
    const theirs = await addWebhook(installation, URL, ['log.checkpoint'], {
      accountId: 'acc_other',
    });
    await addWebhook(installation, URL, ['transfer.failed']);
    const signed: CheckpointSigned[] = [];
    for (let i = 0; i < 2; i++) {
      await appendTransfer(installation.store, ['cancelled']);
      signed.push(await checkpointNow(installation, CAUSE));
      await runOutbox(installation);
    }
    const told = await rows();
    expect(told.map(({ webhook_id, event_type }) => `${webhook_id} ${event_type}`).sort()).toEqual(
      [ours, ours, theirs, theirs].map((id) => `${id} log.checkpoint`).sort(),
    );
    for (const id of [ours, theirs])
      expect((await rows(id)).map(({ body }) => JSON.parse(body))).toEqual(
        signed.map((data) => ({
          id: expect.stringMatching(/^evt_/),
          type: 'log.checkpoint',
          created_at: expect.any(String),
          data,
        })),
      );
  });

  it('delivers only while a webhook is registered and enabled', async () => {
    const { commands, store } = installation;
    const happens = async () => (await appendTransfer(store, [])).eventIds[0];
    await happens();
    const webhookId = await addWebhook(installation, URL, ['transfer.created']);
    const told = [await happens()];
    await updateWebhook(commands, webhookId, { enabled: false }, CAUSE);
    await happens();
    await updateWebhook(commands, webhookId, { enabled: true }, CAUSE);
    told.push(await happens());
    await updateWebhook(commands, webhookId, { events: ['transfer.failed'] }, CAUSE);
    await happens();
    await updateWebhook(commands, webhookId, { events: ['transfer.created'] }, CAUSE);
    told.push(await happens());
    await removeWebhook(commands, webhookId, CAUSE);
    await happens();
    // All of this is in one batch.
    expect((await rows()).map(({ event_id }) => event_id)).toEqual(told);
  });

  it('cancels the pending deliveries of a removed webhook', async () => {
    const webhookId = await addWebhook(installation, URL, ['transfer.created']);
    await appendTransfer(installation.store, []);
    await runOutbox(installation);
    // One earlier delivery, and one in the same batch.
    await appendTransfer(installation.store, []);
    await removeWebhook(installation.commands, webhookId, CAUSE);
    await runOutbox(installation);
    const ended = await installation.sql`
        select status, last_error from work.deliveries where webhook_id = ${webhookId}`;
    expect([...ended]).toEqual(
      Array(2).fill({ status: 'failed', last_error: 'the webhook was removed' }),
    );
  });

  it('leaves most of the pending deliveries of a removed webhook to housekeeping', async () => {
    const { sql, commands } = installation;
    const webhookId = await addWebhook(installation, URL, ['transfer.created']);
    const keptId = await addWebhook(installation, URL, ['transfer.created']);
    await runOutbox(installation);
    const failed = async (id: string) => {
      const [row] = await sql<[{ failed: number; left: number }]>`
        select count(*) filter (where status = 'failed')::integer as failed,
               (select count(*)::integer from work.pending_deliveries
                 where webhook_id = ${id}) as left
          from work.deliveries where webhook_id = ${id}`;
      return row;
    };
    for (const id of [webhookId, keptId])
      await sql`
        with added as (
          insert into work.deliveries
            (id, webhook_id, account_id, event_id, event_type, body, status, attempts)
          select ${id} || n, ${id}, 'acc', 'evt_' || n, 'transfer.created', '{}', 'pending', 0
            from generate_series(1, 12000) n
          returning id, webhook_id, event_id
        )
        insert into work.pending_deliveries (delivery_id, webhook_id, event_id)
        select * from added`;
    await removeWebhook(commands, webhookId, CAUSE);
    await runOutbox(installation);
    // One statement for millions would get no answer in time, and the outbox would repeat it.
    expect(await failed(webhookId)).toEqual({ failed: 5_000, left: 7_000 });
    await failDeliveriesOfRemoved(sql);
    expect(await failed(webhookId)).toEqual({ failed: 12_000, left: 0 });
    expect(await failed(keptId)).toEqual({ failed: 0, left: 12_000 });
  });

  describe('with notify on completion', () => {
    it.each(['completed', 'failed'] as const)(
      'also delivers to webhooks without a subscription to transfer.%s, and to none twice',
      async (end) => {
        const { store } = installation;
        const subscribed = await addWebhook(installation, URL, [`transfer.${end}`]);
        const other = await addWebhook(installation, URL, ['key.expiring_soon']);
        const ofAnother = await addWebhook(installation, URL, ['key.expiring_soon'], {
          accountId: 'acc_other',
        });
        await appendTransfer(store, ['admitted', 'started', end], { notify_on_complete: true });
        await appendTransfer(store, ['admitted', 'started', end], { notify_on_complete: false });
        expect(await types(subscribed)).toEqual([`transfer.${end}`, `transfer.${end}`]);
        expect(await types(other)).toEqual([`transfer.${end}`]);
        expect(await types(ofAnother)).toEqual([]);
      },
    );
  });

  it('delivers no event of one account to another', async () => {
    const { store } = installation;
    const ours = await addWebhook(installation, URL, ['transfer.created', 'key.expiring_soon']);
    const theirs = await addWebhook(installation, URL, ['transfer.created', 'key.expiring_soon'], {
      accountId: 'acc_other',
    });
    const { eventIds } = await appendTransfer(store, [], { account_id: 'acc_other' });
    expect((await rows(theirs)).map(({ event_id }) => event_id)).toEqual(eventIds);
    expect(await rows(ours)).toEqual([]);
  });

  it('notifies the owner of a transfer that an administrator aborted', async () => {
    const { store, commands } = installation;
    const ours = await addWebhook(installation, URL, ['transfer.failed']);
    const theirs = await addWebhook(installation, URL, ['transfer.failed'], {
      accountId: 'acc_other',
    });
    const { transferId } = await appendTransfer(store, ['admitted', 'started'], {
      account_id: 'acc_other',
    });
    await abortTransfer(commands, transferId, {
      actor: 'key_of_acc_default',
      correlationId: 'abort',
    });
    const [told, ...more] = await rows(theirs);
    expect(more).toEqual([]);
    expect(JSON.parse(told?.body ?? '').data).toMatchObject({
      transfer_id: transferId,
      error: { code: 'aborted_by_operator' },
    });
    expect((await store.read(`transfer-${transferId}`)).at(-1)?.metadata).toMatchObject({
      account_id: 'acc_other',
      actor: 'key_of_acc_default',
    });
    expect(await rows(ours)).toEqual([]);
  });

  it('delivers a lost connection to accounts that may use the endpoint then', async () => {
    const { store } = installation;
    const ours = await addWebhook(installation, URL, ['endpoint.connectivity_lost']);
    const theirs = await addWebhook(installation, URL, ['endpoint.connectivity_lost'], {
      accountId: 'acc_other',
    });
    const lost = { type: 'endpoint.connectivity_lost', data: { detected_at: T1 } };
    const restored = { type: 'endpoint.connectivity_restored', data: { restored_at: T1 } };
    const { settings, max_connections, overwrite, ...identity } = endpointConfigured({
      accounts: ['acc_other'],
    });
    const everybody = {
      type: 'endpoint.updated',
      data: { settings, max_connections, overwrite, accounts: null },
    };
    const configured = {
      type: 'endpoint.configured',
      data: { ...identity, settings, max_connections, overwrite },
    };
    await appendEvents(
      store,
      'endpoint-end_lost',
      [configured, lost, restored, everybody, lost],
      null,
    );
    expect(await types(theirs)).toHaveLength(2);
    expect(await types(ours)).toHaveLength(1);
  });

  it('reads no new stream, every other stream once, and eight at a time', async () => {
    await addWebhook(installation, URL, ['transfer.created', 'transfer.completed']);
    const { store } = installation;
    const reads: string[] = [];
    let [underWay, most] = [0, 0];
    const counting: EventStore = {
      ...store,
      async read(stream, from) {
        reads.push(stream);
        most = Math.max(most, ++underWay);
        return store.read(stream, from).finally(() => underWay--);
      },
    };
    const catchUp = () => catchUpIfIdle(installation, createOutboxConsumer(counting));
    const transfers = await Promise.all(
      Array.from({ length: 30 }, () => appendTransfer(store, ['admitted', 'started'])),
    );
    await catchUp();
    expect(reads).toEqual([]);
    const streams = transfers.map(({ transferId }) => `transfer-${transferId}`);
    await Promise.all(
      streams.map((stream) => appendEvents(store, stream, [TRANSFER_EVENTS.completed])),
    );
    await catchUp();
    expect(reads.toSorted()).toEqual(streams.toSorted());
    expect(most).toBe(8);
    expect(await types()).toHaveLength(60);
  });

  it('lets events gather while no account has a webhook', async () => {
    const { store, sql, commands } = installation;
    const { transferId } = await appendTransfer(store, ['admitted']);
    await runOutbox(installation);
    const events = await store.read(`transfer-${transferId}`);
    const gatherMs = async () =>
      (await createOutboxConsumer(store).prepare(sql, events)).gatherMs ?? 0;
    expect(await gatherMs()).toBeGreaterThan(0);
    const webhookId = await addWebhook(installation, URL, ['transfer.failed'], {
      accountId: 'acc_other',
    });
    await runOutbox(installation);
    expect(await gatherMs()).toBe(0);
    await updateWebhook(commands, webhookId, { enabled: false }, CAUSE);
    await runOutbox(installation);
    expect(await gatherMs()).toBeGreaterThan(0);
  });

  it('writes nothing twice after a reset or during a rebuild', async () => {
    const { sql, derived } = installation;
    await addWebhook(installation, URL, ['transfer.created', 'transfer.completed']);
    await appendTransfer(installation.store, ['admitted', 'started', 'completed']);
    const before = await rows();
    await sql`update work.deliveries set status = 'delivered', ended_at = now()`;
    await sql`delete from work.checkpoints where name = 'outbox'`;
    await rebuildProjection({ ...installation, sql: derived }, 'catalog', () => undefined);
    const after = await rows();
    expect(after.filter(({ event_id }) => before.some((row) => row.event_id === event_id))).toEqual(
      before,
    );
    const [{ pending } = { pending: -1 }] = await sql<{ pending: number }[]>`
      select count(*)::integer as pending from work.deliveries
       where status = 'pending'
         and event_id = any(${before.map(({ event_id }) => event_id)}::text[])`;
    expect(pending).toBe(0);
  });

  it('continues at the end of the log after a rebuild, with its webhooks', async () => {
    const { sql, store } = installation;
    const webhookId = await addWebhook(installation, URL, ['transfer.created']);
    await appendTransfer(store, []);
    await runOutbox(installation);
    const known = () =>
      sql`select webhook_id, live, revision, state from work.outbox_webhooks order by webhook_id`;
    const marks = () => sql`select hour, position from work.event_times order by hour`;
    const before = [await known(), await marks()];
    await sql`delete from work.deliveries`;
    await sql`update work.checkpoints set log_id = 'another' where name = 'outbox'`;
    await expect(runOutbox(installation)).rejects.toThrow('waybill projections rebuild outbox');

    await rebuildOutbox(installation);
    expect(await rows()).toEqual([]);
    expect([await known(), await marks()]).toEqual(before);
    const { eventIds } = await appendTransfer(store, []);
    expect(await rows(webhookId)).toMatchObject([{ event_id: eventIds[0] }]);
  });
});
