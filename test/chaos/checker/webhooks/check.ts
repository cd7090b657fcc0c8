import { same } from '../canonical.ts';
import type { Context } from '../context.ts';
import { type Arrivals, type Arrived, checkArrivals } from './arrivals.ts';
import { checkOrder } from './order.ts';
import { type DeliveryRow, type DeliveryRows, readRows } from './rows.ts';

/**
 * Checks that every event reached every webhook that must get it, or is listed as failed, and that
 * nothing else arrived.
 */
export async function checkWebhooks(context: Context): Promise<void> {
  const { log, report } = context;
  checkRegistrations(context);
  await checkOutbox(context);
  const rows = await readRows(context);
  const arrivals = checkArrivals(context, rows.pings);
  checkOwed(context, rows, arrivals);
  checkOrder(context, rows, arrivals);
  const owed = [...log.owed.values()].reduce((sum, events) => sum + events.size, 0);
  report.expectSome('webhooks.owed', 'owed', owed);
  report.expectSome('webhooks.arrivals', 'arrivals', hasReceiver(context) ? owed : 0);
}

function hasReceiver({ evidence, log }: Context): boolean {
  return evidence.webhooks.some(({ webhookId }) => (log.owed.get(webhookId)?.size ?? 0) > 0);
}

/** Checks that the webhooks registered by the load are those of the log. */
function checkRegistrations({ evidence, log, report }: Context): void {
  for (const { webhookId, removedAt } of evidence.webhooks) {
    report.count('webhooks');
    const state = log.webhooks.get(webhookId)?.state;
    if (!state) report.finding('webhooks.registered', webhookId, 'the log does not hold it');
    else if (removedAt !== null && state.status !== 'removed')
      report.finding('webhooks.registered', webhookId, 'it was removed, and is not');
  }
}

/** Checks the outbox, which folds the webhooks itself: its states must match the log too. */
async function checkOutbox({ sql, log, report }: Context): Promise<void> {
  const rows = await sql<{ webhook_id: string; live: boolean; revision: number; state: unknown }[]>`
    select webhook_id, live, revision, state from work.outbox_webhooks`;
  const known = new Map(rows.map((row) => [row.webhook_id, row]));
  for (const [id, { state, revision }] of log.webhooks) {
    report.count('outbox_webhooks');
    const expected = {
      webhook_id: id,
      live: state.status === 'active' && state.enabled === true,
      revision,
      state,
    };
    if (!same(known.get(id) ?? null, expected))
      report.finding('webhooks.outbox', id, 'work.outbox_webhooks has it otherwise than the log');
  }
}

function checkOwed(
  { evidence, log, report }: Context,
  { rows }: DeliveryRows,
  arrivals: Arrivals,
): void {
  const received = new Set(evidence.webhooks.map(({ webhookId }) => webhookId));
  for (const [webhookId, events] of log.owed) {
    const webhook = log.webhooks.get(webhookId)?.state;
    const waits = webhook?.status === 'active' && webhook.enabled === false;
    for (const eventId of events) {
      report.count('owed');
      const arrived = received.has(webhookId)
        ? (arrivals.get(webhookId)?.get(eventId) ?? null)
        : undefined;
      const problem = problemOf(rows.get(webhookId)?.get(eventId), arrived, waits);
      if (problem !== null)
        report.finding(
          'webhooks.owed',
          `${webhookId} ${eventId} (${log.events.get(eventId)?.type})`,
          problem,
        );
    }
  }
  for (const [webhookId, ofWebhook] of rows) {
    for (const [eventId, { id }] of ofWebhook) {
      if (log.owed.get(webhookId)?.has(eventId) || log.replayable.get(webhookId)?.has(eventId))
        continue;
      report.finding(
        'webhooks.rows',
        `${id} (${webhookId} ${eventId})`,
        'the webhook was not to get this event',
      );
    }
  }
}

/**
 * `arrived`: null if nothing arrived, undefined if the run has no receiver for the webhook.
 * `waits`: the webhook is disabled.
 */
function problemOf(
  row: DeliveryRow | undefined,
  arrived: Arrived | null | undefined,
  waits: boolean,
): string | null {
  if (!row) return `no delivery of it is listed${arrived ? ', although it arrived' : ''}`;
  if (row.status === 'pending')
    return waits ? null : `it is pending after ${row.attempts} attempts: ${row.lastError}`;
  const bodies = [...(arrived?.bodies ?? [])];
  if (bodies.some((body) => body !== row.bodySha256))
    return 'the bytes that arrived are not those of its delivery';
  if (row.status === 'failed' || arrived === undefined) return null;
  if (arrived === null) return 'it is listed as delivered, and never arrived';
  return arrived.acknowledged
    ? null
    : 'it is listed as delivered, and no arrival was answered with 2xx';
}
