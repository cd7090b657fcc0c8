import { afterAll, beforeAll, expect, it } from 'vitest';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { projectionStatus } from '../../../src/processes/projections/status.ts';
import { rebuildOutbox } from '../../../src/processes/webhooks/outbox.ts';
import { replay } from '../../../src/processes/webhooks/replays.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import {
  describeOnEventStoreDb,
  type EventStoreServer,
} from '../../support/event-store/eventstoredb.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { startRoles } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhooks/receiver.ts';
import { addWebhook, appendTransfer } from '../../support/webhooks/webhooks.ts';

describeOnEventStoreDb('the end of a log that others write to', (start) => {
  const closers: (() => unknown)[] = [];
  let installation: TestInstallation;
  let receiver: WebhookReceiver;
  let log: EventStoreServer;
  beforeAll(async () => {
    log = await start();
    closers.push(() => log.close());
    installation = await openTestInstallation({
      ...log.settings,
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    });
    closers.push(() => installation.close());
    receiver = await startWebhookReceiver();
    closers.push(() => receiver.close());
    const roles = await startRoles(installation, ['projector', 'webhooks']);
    closers.push(() => roles.stop());
  });
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
  });
  const told = () => receiver.received.map(({ eventId }) => eventId);

  it('ends a replay whose last event is not the newest of the server', async () => {
    const before = await appendTransfer(installation.store, []);
    const webhookId = await addWebhook(installation, receiver.url, ['transfer.created']);
    const { eventIds } = await appendTransfer(installation.store, []);
    await until('the later event has arrived', () => told().length === 1);
    await log.appendForeign();
    await replay(installation, webhookId, { eventId: before.eventIds[0] as string });
    await until('both have arrived', () => told().length === 3);
    expect(told().slice(1).toSorted()).toEqual([...before.eventIds, ...eventIds].toSorted());
    const { sql } = installation;
    await expect.poll(() => sql`select webhook_id from work.webhook_replays`).toEqual([]);
  });

  it('ends a rebuild of the outbox, and of a projection', async () => {
    await log.appendForeign();
    await rebuildOutbox(installation);
    const before = told().length;
    const { eventIds } = await appendTransfer(installation.store, []);
    await until('the next event has arrived', () => told().includes(eventIds[0] as string));
    expect(told()).toHaveLength(before + 1);
    await log.appendForeign();
    const shares: number[] = [];
    const { differences } = await rebuildProjection(installation, 'transfers', ({ share }) =>
      shares.push(share),
    );
    expect(differences).toEqual([]);
  });

  it('is reached by every consumer, which reports no position beyond the head', async () => {
    await log.appendForeign();
    const { sql, store, locks } = installation;
    const caughtUp = await until('every consumer has caught up', async () => {
      try {
        const status = await projectionStatus({ sql, store, locks });
        return status.every(({ lag_events }) => lag_events === 0) ? status : null;
      } catch (error) {
        // The counts of a busy server can take longer than the status waits for them.
        if (error instanceof EventStoreUnavailable) return null;
        throw error;
      }
    });
    for (const { position, log_position } of caughtUp) {
      expect(position).toBeLessThanOrEqual(log_position);
    }
  });
});
