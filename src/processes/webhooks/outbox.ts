import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/event.ts';
import type { WebhookState } from '../../domain/webhook.ts';
import * as webhook from '../../domain/webhook.ts';
import type { Consumer } from '../../projections/consumer.ts';
import { type Folded, foldBatch } from '../../projections/fold.ts';
import { type Candidate, composeDeliveries, isTold, mayBeTold } from './compose.ts';
import { enqueue } from './queue.ts';

const WEBHOOKS = 'webhook-';

/** The streams whose events webhooks are told of. */
export const TOLD_STREAMS = ['transfer-', 'endpoint-', 'key-'];

/**
 * Follows the log and writes a delivery for each event that a webhook is told of. It folds the webhooks
 * themselves: each event meets the webhooks as they were at its place in the log, whoever reads how fast.
 */
export function createOutboxConsumer(store: EventStore): Consumer {
  return {
    name: 'outbox',
    table: 'work.checkpoints',
    version: 1,
    streams: [...TOLD_STREAMS, WEBHOOKS],
    apply: (tx, events) => recordInOutbox(tx, store, events),
  };
}

async function recordInOutbox(tx: Transaction, store: EventStore, events: StoredEvent[]): Promise<void> {
  // Sent together: where there is no webhook, this is all.
  const [known] = await Promise.all([knownWebhooks(tx, events), markHours(tx, events)]);
  const changed = new Map<string, Folded<WebhookState>>();
  const candidates: Candidate[] = [];
  for (const event of events) {
    if (event.stream.startsWith(WEBHOOKS)) {
      for (const [stream, folded] of foldBatch<WebhookState>([event], known, webhook)) {
        known.set(stream, folded);
        changed.set(stream, folded);
      }
    } else if (isTold(event.type)) {
      for (const { state } of known.values()) if (isLive(state) && mayBeTold(event, state)) candidates.push({ event, webhook: state });
    }
  }
  if (candidates.length > 0) await enqueue(tx, await composeDeliveries(store, candidates));
  for (const folded of changed.values()) await saveWebhook(tx, folded);
}

function isLive(state: WebhookState): state is webhook.Webhook {
  return state.status === 'active' && state.enabled;
}

/** The webhooks that these events are of, and the live ones of the accounts that they are of. */
async function knownWebhooks(tx: Transaction, events: StoredEvent[]): Promise<Map<string, Folded<WebhookState>>> {
  const ids = events.filter(({ stream }) => stream.startsWith(WEBHOOKS)).map(({ stream }) => stream.slice(WEBHOOKS.length));
  const accounts = [...new Set(events.map(({ metadata }) => metadata.account_id))].filter((id) => id !== null);
  const ofAllAccounts = events.some(({ type }) => type === 'endpoint.connectivity_lost');
  const rows = await tx<({ webhook_id: string } & Folded<WebhookState>)[]>`
    select webhook_id, revision, position, state from work.outbox_webhooks
     where webhook_id = any(${ids}::text[]) or (live and (${ofAllAccounts} or account_id = any(${accounts}::text[])))`;
  return new Map(rows.map(({ webhook_id, ...folded }) => [WEBHOOKS + webhook_id, folded]));
}

async function saveWebhook(tx: Transaction, { state, revision, position }: Folded<WebhookState>): Promise<void> {
  if (state.status === 'none') return;
  const { webhook_id, account_id } = state;
  const changes = { account_id, live: isLive(state), revision, position: position as never, state: tx.json(state as never) };
  await tx`
    insert into work.outbox_webhooks ${tx({ webhook_id, ...changes })} on conflict (webhook_id) do update set ${tx(changes)}`;
  if (state.status === 'removed') {
    await tx`
      update work.deliveries
         set status = 'failed', ended_at = now(), last_error = 'the webhook was removed', claim_id = null, lease_until = null
       where webhook_id = ${webhook_id} and status = 'pending'`;
  }
}

/** Notes where in the log each hour begins. Clocks differ: an hour may begin before the one before it has ended. */
async function markHours(tx: Transaction, events: StoredEvent[]): Promise<void> {
  const first = new Map<string, bigint>();
  for (const { metadata, position } of events) {
    const hour = `${metadata.occurred_at.slice(0, 13)}:00:00Z`;
    if (!first.has(hour)) first.set(hour, position);
  }
  await tx`
    insert into work.event_times (hour, position)
    select hour::timestamptz, position from unnest(${[...first.keys()]}::text[], ${[...first.values()].map(String)}::bigint[]) as m(hour, position)
    on conflict do nothing`;
}
