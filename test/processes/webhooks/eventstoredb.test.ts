import { afterAll, beforeAll, expect, it } from 'vitest';
import { replay } from '../../../src/processes/webhooks/replays.ts';
import { describeOnEventStoreDb } from '../../support/event-store/eventstoredb.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { startRoles } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhooks/receiver.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks/webhooks.ts';

const TRANSFERS = 50;

describeOnEventStoreDb('webhooks', (start) => {
  const closers: (() => unknown)[] = [];
  let installation: TestInstallation;
  let receiver: WebhookReceiver;
  beforeAll(async () => {
    const log = await start();
    closers.push(() => log.close());
    installation = await openTestInstallation({
      ...log.settings,
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    });
    closers.push(() => installation.close());
    receiver = await startWebhookReceiver();
    closers.push(() => receiver.close());
    const roles = await startRoles(installation, ['webhooks']);
    closers.push(() => roles.stop());
  });
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
  });

  /** The first transfer is the first in the log, too. */
  const happen = async () => {
    const append = () => appendTransfer(installation.store, ['admitted', 'started', 'completed']);
    const first = await append();
    return [first, ...(await Promise.all(Array.from({ length: TRANSFERS - 1 }, append)))];
  };
  const told = () => receiver.received.map(({ eventId }) => eventId);

  it('get every later event once, in order, and earlier events by a replay', async () => {
    const before = await happen();
    const webhookId = await addWebhook(installation, receiver.url, [
      'transfer.created',
      'transfer.completed',
    ]);
    const behind = await happen();
    const eventsOf = (transfers: typeof before) =>
      transfers.flatMap(({ eventIds }) => [eventIds[0] as string, eventIds[3] as string]);
    await until('all have arrived', () => told().length >= 2 * TRANSFERS);
    expect(told().toSorted()).toEqual(eventsOf(behind).toSorted());
    for (const { eventIds } of behind) {
      expect(told().filter((id) => eventIds.includes(id))).toEqual([eventIds[0], eventIds[3]]);
    }

    const [first] = before;
    await replay(installation, webhookId, { eventId: first?.eventIds[0] as string });
    await until('earlier events have arrived too', () => told().length >= 6 * TRANSFERS);
    expect(
      told()
        .slice(2 * TRANSFERS)
        .toSorted(),
    ).toEqual(eventsOf([...before, ...behind]).toSorted());
  });
});
