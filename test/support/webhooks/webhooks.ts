import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import type { Queryable } from '../../../src/adapters/postgres/connect.ts';
import { registerWebhook } from '../../../src/commands/webhooks.ts';
import { webhookRequest } from '../../../src/contract/webhooks/requests.ts';
import type { Event, NewEvent } from '../../../src/domain/events/event.ts';
import { newId, nextEventId } from '../../../src/domain/ids.ts';
import type { TransferCreated } from '../../../src/domain/transfers/transfer.ts';
import type { WebhookEventType } from '../../../src/domain/webhook.ts';
import type { Installation } from '../../../src/installation.ts';
import { createOutboxConsumer } from '../../../src/processes/webhooks/outbox.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { TRANSFER_EVENTS, transferCreated } from '../domain/samples.ts';

/** Registers a webhook and returns its id. */
export async function addWebhook(
  installation: Installation,
  url: string,
  events: WebhookEventType[],
  {
    accountId = 'acc_default',
    secret = 'a secret of ours',
  }: { accountId?: string; secret?: string } = {},
): Promise<string> {
  const request = webhookRequest.parse({ url, events, secret });
  const { webhook } = await registerWebhook(installation.commands, accountId, request, {
    actor: 'test',
    correlationId: 'test',
  });
  return webhook.webhook_id;
}

/** Writes deliveries of a webhook, as if they had failed. */
export async function addDeliveries(
  sql: Queryable,
  count: number,
  { webhookId }: { webhookId: string },
): Promise<void> {
  await sql`
    insert into work.deliveries (id, webhook_id, account_id, event_id, event_type, body, status,
        attempts, ended_at)
    select 'dlv_' || n, ${webhookId}, 'acc_default', 'evt_' || n, 'transfer.failed', '{}', 'failed',
           4, now()
      from generate_series(1, ${count}::integer) as n`;
}

export type Step = keyof typeof TRANSFER_EVENTS;

/** Appends the events of a transfer, created and later ones, in one append. Returns their ids. */
export async function appendTransfer(
  store: EventStore,
  steps: Step[],
  changes: Partial<TransferCreated> = {},
): Promise<{ transferId: string; eventIds: string[] }> {
  const transferId = newId('txr');
  const data = transferCreated({ transfer_id: transferId, ...changes });
  const eventIds = await appendEvents(
    store,
    `transfer-${transferId}`,
    [{ type: 'transfer.created', data }, ...steps.map((step): Event => TRANSFER_EVENTS[step])],
    data.account_id,
  );
  return { transferId, eventIds };
}

/**
 * Appends events to a stream and returns their ids. They occur now, one by one, unless `at` gives
 * the time.
 */
export async function appendEvents(
  store: EventStore,
  stream: string,
  events: Event[],
  account_id: string | null = 'acc_default',
  at: Date = new Date(),
  { actor = 'test' }: { actor?: string } = {},
): Promise<string[]> {
  const last = (await store.read(stream)).at(-1);
  const occurred_at = at.toISOString();
  const metadata = {
    actor,
    account_id,
    correlation_id: 'test',
    causation_id: null,
    occurred_at,
    prev_hash: null,
  };
  let previous = last?.id ?? null;
  const all = events.map((event): NewEvent => {
    previous = nextEventId(previous, at.getTime());
    return { ...event, id: previous, schema_version: 1, metadata };
  });
  await store.append(stream, last?.revision ?? 'no_stream', all);
  return all.map(({ id }) => id);
}

/** Moves the outbox to the end of the log, if no process runs it. */
export function runOutbox(installation: Installation): Promise<void> {
  return catchUpIfIdle(installation, createOutboxConsumer(installation.store));
}
