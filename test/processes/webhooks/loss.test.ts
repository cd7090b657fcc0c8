import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestInstallation, type TestInstallation } from '../../support/installation.ts';
import { describeWithPostgres } from '../../support/postgres.ts';
import { type SpawnedService, spawnService } from '../../support/roles.ts';
import { until } from '../../support/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks.ts';

const TRANSFERS = 5_000;

describeWithPostgres('the loss of a process that delivers', () => {
  let installation: TestInstallation;
  let receiver: WebhookReceiver;
  const services: SpawnedService[] = [];
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8' });
    receiver = await startWebhookReceiver();
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.kill()));
    await receiver?.close();
    await installation?.close();
  });

  async function start(): Promise<SpawnedService> {
    const service = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' }, ['webhooks']);
    services.push(service);
    return service;
  }

  it('by kill -9 in the midst of 10,000 deliveries loses no event, and repeats less than one in a hundred', {
    timeout: 180_000,
  }, async () => {
    const { store, sql } = installation;
    await addWebhook(installation, receiver.url, ['transfer.created', 'transfer.cancelled']);
    const transfers = await Promise.all(Array.from({ length: TRANSFERS }, () => appendTransfer(store, ['cancelled'])));
    const expected = new Set(transfers.flatMap(({ eventIds }) => eventIds));

    for (const least of [1_000, 4_000, 7_000]) {
      const service = await start();
      await until(`${least} have arrived`, () => receiver.received.length >= least, 60);
      await service.kill();
      expect(receiver.received.length).toBeLessThan(expected.size);
      // As half a minute would.
      await sql`update work.deliveries set lease_until = now() - interval '1 second' where lease_until is not null`;
    }
    await start();
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
