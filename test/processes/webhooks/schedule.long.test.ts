import { afterAll, expect, it } from 'vitest';
import { ping } from '../../../src/processes/webhooks/deliveries.ts';
import { getDelivery } from '../../../src/processes/webhooks/delivery-table/read.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';
import { type Behaviour, startWebhookReceiver } from '../../support/webhooks/receiver.ts';
import { addWebhook } from '../../support/webhooks/webhooks.ts';

const SECONDS = 1_000;

// The schedule by the real clock, with a whole process: with delays of seconds, and with the
// default delays, which take 36 minutes. No attempt is early. The test prints how late they are,
// which depends on the machine.
describeWithPostgres('the schedule of a delivery, by the real clock', () => {
  const undo: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  it.each([
    ['shortened', { WAYBILL_WEBHOOK_RETRY_DELAYS: '2s,5s,9s' }, [2, 5, 9]],
    ['as it is by default', {}, [60, 300, 1_800]],
  ] as const)('%s', { timeout: 50 * 60 * SECONDS }, async (name, settings, delays) => {
    const installation: TestInstallation = await openTestInstallation({
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
      ...settings,
    });
    undo.push(() => installation.close());
    const roles: RunningRoles = await startRoles(installation, ['webhooks']);
    undo.push(() => roles.stop());
    const behaviours: Behaviour[] = [500, 302, 'hang', 'reset', 'slow_headers'];
    const ids = await Promise.all(
      behaviours.map(async (behaviour) => {
        const receiver = await startWebhookReceiver({ behaviour });
        undo.push(() => receiver.close());
        const webhookId = await addWebhook(installation, receiver.url, ['transfer.created']);
        return ping(installation.sql, { webhookId, accountId: 'acc_default' });
      }),
    );
    const lateness: number[] = [];
    for (const [i, id] of ids.entries()) {
      const delivery = await until(
        `${behaviours[i]} has failed`,
        async () => {
          const found = await getDelivery(installation.sql, id);
          return found?.status === 'failed' ? found : null;
        },
        45 * 60,
      );
      const attempts = delivery.attempt_list;
      const gaps = attempts.slice(1).map(({ at }, n) => {
        const before = attempts[n] as (typeof attempts)[number];
        return Date.parse(at) - Date.parse(before.at) - before.duration_ms;
      });
      expect(attempts.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
      for (const [n, gap] of gaps.entries()) {
        const late = gap - (delays[n] as number) * SECONDS;
        expect(late).toBeGreaterThanOrEqual(0);
        lateness.push(late);
      }
      const hangs = behaviours[i] === 'hang' || behaviours[i] === 'slow_headers';
      // Given up after the ten seconds that it may take, accurate to a timer's millisecond.
      if (hangs)
        for (const { duration_ms } of attempts)
          expect(duration_ms).toBeGreaterThanOrEqual(10 * SECONDS - 1);
    }
    lateness.sort((a, b) => a - b);
    const median = lateness[Math.floor(lateness.length / 2)];
    console.log(
      `${name}: ${lateness.length} retries, late by ${lateness[0]} to ${lateness.at(-1)} ms, ` +
        `median ${median} ms`,
    );
  });
});
