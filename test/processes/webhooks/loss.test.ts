import { afterEach, beforeEach, expect, it } from 'vitest';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { longUnless } from '../../support/run/long.ts';
import { until } from '../../support/service/transfers.ts';
import { openWebhookProcesses, type WebhookProcesses } from '../../support/webhooks/processes.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks/webhooks.ts';

const DELIVERIES = [1_000, 10_000];
/** After each of three kills, as docs/operators.md promises, however many wait. */
const MAX_REPEATED = 3 * (512 + 32);
/** Only a net: the waits below fail earlier, and say for what they waited. */
const TIMEOUT_MS = 10 * 60_000;

describeWithPostgres('the loss of a delivering process', () => {
  let processes: WebhookProcesses;
  beforeEach(async () => {
    processes = await openWebhookProcesses();
  });
  afterEach(() => processes?.close());

  for (const deliveries of DELIVERIES)
    it(
      `by kill -9 during ${deliveries} deliveries loses no event, and repeats few`,
      {
        timeout: TIMEOUT_MS,
        ...longUnless(deliveries === DELIVERIES[0]),
      },
      () => loseProcesses(deliveries),
    );

  async function loseProcesses(deliveries: number): Promise<void> {
    const { installation, receiver } = processes;
    const { store, sql } = installation;
    await addWebhook(installation, receiver.url, ['transfer.created', 'transfer.cancelled']);
    const transfers = await Promise.all(
      Array.from({ length: deliveries / 2 }, () => appendTransfer(store, ['cancelled'])),
    );
    const expected = new Set(transfers.flatMap(({ eventIds }) => eventIds));

    for (const share of [0.1, 0.4, 0.7]) {
      const least = share * deliveries;
      const service = await processes.start();
      await until(
        `${least} have arrived`,
        () => receiver.received.length >= least,
        60,
        () => receiver.received.length,
      );
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
      () => receiver.received.length,
    );

    const arrived = receiver.received.map(({ eventId }) => eventId);
    expect(new Set(arrived)).toEqual(expected);
    expect(arrived.length - expected.size).toBeLessThan(MAX_REPEATED);
  }
});
