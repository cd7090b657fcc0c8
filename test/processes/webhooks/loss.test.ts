import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../support/postgres.ts';
import { until } from '../../support/transfers.ts';
import { openWebhookProcesses, type WebhookProcesses } from '../../support/webhook-processes.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks.ts';

const TRANSFERS = 5_000;

describeWithPostgres('the loss of a delivering process', () => {
  let processes: WebhookProcesses;
  beforeAll(async () => {
    processes = await openWebhookProcesses();
  });
  afterAll(() => processes?.close());

  it('by kill -9 during 10,000 deliveries loses no event, and repeats less than one in a hundred', {
    timeout: 180_000,
  }, async () => {
    const { installation, receiver } = processes;
    const { store, sql } = installation;
    await addWebhook(installation, receiver.url, ['transfer.created', 'transfer.cancelled']);
    const transfers = await Promise.all(
      Array.from({ length: TRANSFERS }, () => appendTransfer(store, ['cancelled'])),
    );
    const expected = new Set(transfers.flatMap(({ eventIds }) => eventIds));

    for (const least of [1_000, 4_000, 7_000]) {
      const service = await processes.start();
      await until(`${least} have arrived`, () => receiver.received.length >= least, 60);
      await service.kill();
      expect(receiver.received.length).toBeLessThan(expected.size);
      // Has the effect of half a minute.
      await sql`
        update work.pending_deliveries set lease_until = now() - interval '1 second'
         where lease_until is not null`;
    }
    await processes.start();
    await until(
      'all are delivered',
      async () => {
        const [row] = await sql<{ all: boolean }[]>`
        select count(*) = ${expected.size} as all from work.deliveries where status = 'delivered'`;
        return row?.all;
      },
      90,
    );

    const arrived = receiver.received.map(({ eventId }) => eventId);
    expect(new Set(arrived)).toEqual(expected);
    expect(arrived.length - expected.size).toBeLessThan(expected.size / 100);
  });
});
