import { afterAll, beforeAll, expect, it } from 'vitest';
import { createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CAUSE } from '../../support/service/installation.ts';
import type { SpawnedService } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';
import { openWebhookProcesses, type WebhookProcesses } from '../../support/webhooks/processes.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks/webhooks.ts';

const WEBHOOKS = 4;
const ROUND = 200;

describeWithPostgres('two processes that deliver', () => {
  let processes: WebhookProcesses;
  let services: SpawnedService[];
  let key: string;
  beforeAll(async () => {
    processes = await openWebhookProcesses();
    const request = keyRequest.parse({
      name: 'metrics',
      scopes: ['metrics:read'],
      account: 'acc_default',
      expires_in: '1h',
    });
    ({ key } = await createKey(processes.installation.commands, request, CAUSE, {
      allowNever: false,
    }));
    services = await Promise.all([0, 1].map(() => processes.start(['api', 'webhooks'])));
  });
  afterAll(() => processes?.close());

  async function deliveredBy(service: SpawnedService): Promise<number> {
    const url = /"url":"(http[^"]+)"/.exec(service.output())?.[1];
    const metrics = await (
      await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })
    ).text();
    const [, value] =
      /^waybill_webhook_deliveries_total\{[^}]*end="delivered"[^}]*\} (\d+)$/m.exec(metrics) ?? [];
    return Number(value ?? 0);
  }

  it('share the work, and neither enqueue nor send anything twice', {
    timeout: 120_000,
  }, async () => {
    const { installation, receiver } = processes;
    const { store, sql } = installation;
    for (let n = 0; n < WEBHOOKS; n++)
      await addWebhook(installation, `${receiver.url}?n=${n}`, [
        'transfer.created',
        'transfer.cancelled',
      ]);
    const expected: string[] = [];
    // Repeats until both have had their share, however busy the machine is.
    await until(
      'both have delivered',
      async () => {
        const transfers = await Promise.all(
          Array.from({ length: ROUND }, () => appendTransfer(store, ['cancelled'])),
        );
        expected.push(...transfers.flatMap(({ eventIds }) => eventIds));
        await until(
          'all of a round have arrived',
          () => receiver.received.length >= WEBHOOKS * expected.length,
          60,
        );
        return (await Promise.all(services.map(deliveredBy))).every((count) => count > 0);
      },
      90,
    );
    await until(
      'all are recorded',
      async () => (await sql`select from work.deliveries where status = 'pending'`).length === 0,
    );

    const inAll = WEBHOOKS * expected.length;
    const arrived = receiver.received.map(({ path, eventId }) => `${path} ${eventId}`);
    expect(new Set(arrived).size).toBe(inAll);
    expect(new Set(receiver.received.map(({ eventId }) => eventId))).toEqual(new Set(expected));
    // On a machine that stood still for seconds, the outbox loses its lock and repeats a batch.
    if (services.some((service) => service.output().includes('a consumer of the log has'))) return;
    expect(arrived).toHaveLength(inAll);
    const [rows] =
      await sql`select count(*)::integer as count, max(attempts) as attempts from work.deliveries`;
    expect(rows).toEqual({ count: inAll, attempts: 1 });
    await until('they have the same count', async () => {
      const counts = await Promise.all(services.map(deliveredBy));
      return counts.reduce((sum, count) => sum + count, 0) === inAll;
    });
  });
});
