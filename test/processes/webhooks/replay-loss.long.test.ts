import { afterAll, beforeAll, expect, it } from 'vitest';
import { newId } from '../../../src/domain/ids.ts';
import { replay } from '../../../src/processes/webhooks/replays.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { until } from '../../support/service/transfers.ts';
import { openWebhookProcesses, type WebhookProcesses } from '../../support/webhooks/processes.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks/webhooks.ts';

const TRANSFERS = 2_000;
/** In the third batch of the replay, or after it. */
const HELD = 1_400;

describeWithPostgres('the loss of a replaying process', () => {
  let processes: WebhookProcesses;
  beforeAll(async () => {
    processes = await openWebhookProcesses();
  });
  afterAll(() => processes?.close());

  it('by kill -9 in the middle loses nothing: another process continues where it was', {
    timeout: 120_000,
  }, async () => {
    const { installation, receiver } = processes;
    const { store, sql } = installation;
    const eventIds: string[] = [];
    for (let n = 0; n < TRANSFERS; n += 100) {
      const transfers = await Promise.all(
        Array.from({ length: 100 }, () => appendTransfer(store, [])),
      );
      eventIds.push(...transfers.map((transfer) => transfer.eventIds[0] as string));
    }
    const webhookId = await addWebhook(installation, receiver.url, ['transfer.created']);
    const service = await processes.start();
    const replays = () => sql<{ position: bigint }[]>`select position from work.webhook_replays`;

    // A row that is being inserted blocks every process that inserts the same row, so the replay
    // stops there.
    const release = Promise.withResolvers<void>();
    const holds = Promise.withResolvers<void>();
    const holding = sql
      .begin(async (tx) => {
        await tx`
          insert into work.deliveries (id, webhook_id, account_id, event_id, event_type, body)
          values (${newId('dlv')}, ${webhookId}, 'acc_default', ${eventIds[HELD] as string},
                  'transfer.created', '{}')`;
        holds.resolve();
        await release.promise;
        throw new Error('it never was');
      })
      .catch(() => undefined);
    await holds.promise;
    await until(
      'the outbox has the webhook',
      async () => (await sql`select from work.outbox_webhooks`).length === 1,
    );
    await replay(installation, webhookId, { eventId: eventIds[0] as string });
    await until('the replay stands still', async () => {
      const waiting = await sql`
        select from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'
           and query like '%work.deliveries%'`;
      return waiting.length > 0;
    });
    const [stopped] = await replays();
    await service.kill();
    release.resolve();
    await holding;
    expect(stopped?.position).toBeGreaterThan(0n);
    // Has the effect of half a minute.
    await sql`
      update work.pending_deliveries set lease_until = now() - interval '1 second'
       where lease_until is not null`;
    const before = await sql<
      { id: string; event_id: string }[]
    >`select id, event_id from work.deliveries`;
    expect(before.length).toBeGreaterThan(0);
    expect(before.length).toBeLessThan(TRANSFERS);
    expect(await replays()).toEqual([stopped]);

    await processes.start();
    await until('the replay has ended', async () => (await replays()).length === 0, 60);
    await until(
      'all is delivered',
      async () => (await sql`select from work.deliveries where status <> 'delivered'`).length === 0,
      60,
    );
    const after = await sql<
      { id: string; event_id: string }[]
    >`select id, event_id from work.deliveries`;
    expect(after.map(({ event_id }) => event_id).toSorted()).toEqual(eventIds.toSorted());
    expect(after).toEqual(expect.arrayContaining([...before]));
    expect(new Set(receiver.received.map(({ eventId }) => eventId))).toEqual(new Set(eventIds));
  });
});
