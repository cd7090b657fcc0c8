import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { upcast } from '../../domain/upcast.ts';
import type { WebhookState } from '../../domain/webhook.ts';
import * as webhook from '../../domain/webhook.ts';
import { moveCheckpoint, startCheckpoint } from '../../projections/checkpoint.ts';
import type { Consumer } from '../../projections/consumer.ts';
import { type Folded, foldBatch } from '../../projections/fold.ts';
import { type Candidate, composeDeliveries, isTold, mayBeTold } from './compose.ts';
import { enqueue } from './queue.ts';

const NAME = 'outbox';
const TABLE = 'work.checkpoints';
const VERSION = 1;
const WEBHOOKS = 'webhook-';

/** The streams whose events webhooks are told of. */
export const TOLD_STREAMS = ['transfer-', 'endpoint-', 'key-'];

/**
 * Follows the log and writes a delivery for each event that a webhook is told of. It folds the webhooks
 * themselves: each event meets the webhooks as they were at its place in the log, whoever reads how fast.
 */
export function createOutboxConsumer(store: EventStore): Consumer {
  return {
    name: NAME,
    table: TABLE,
    version: VERSION,
    streams: [...TOLD_STREAMS, WEBHOOKS],
    async apply(tx, events) {
      const candidates = await foldInOutbox(tx, events);
      if (candidates.length > 0) await enqueue(tx, await composeDeliveries(store, candidates, events));
      await endThoseOfRemoved(tx, events);
    },
  };
}

/**
 * Makes what the outbox knows anew from the log, for a log that it does not know, and has it go on at the
 * end: nothing is sent that happened before. Deliveries that are there stay as they are.
 */
export async function rebuildOutbox({ sql, store, logId }: { sql: Sql; store: EventStore; logId: string }): Promise<void> {
  const head = (await store.head()) ?? 0n;
  await sql.begin(async (tx) => {
    await tx`delete from work.checkpoints where name = ${NAME}`;
    await tx`delete from work.outbox_webhooks`;
    await tx`delete from work.event_times`;
    await tx`delete from work.webhook_replays`;
    await startCheckpoint(tx, TABLE, NAME, logId, VERSION);
    if (head === 0n) return;
    const { signal } = new AbortController();
    for await (const { events, position } of store.subscribe({ from: null, signal, streams: [...TOLD_STREAMS, WEBHOOKS] })) {
      if (events.length > 0) await foldInOutbox(tx, events.map(upcast));
      if (position < head) continue;
      return moveCheckpoint(tx, TABLE, NAME, 0n, position, events.at(-1) ?? null);
    }
  });
}

/** Folds the webhooks, and gives what those that were live at its place in the log may be told of each event. */
async function foldInOutbox(tx: Transaction, events: StoredEvent[]): Promise<Candidate[]> {
  // Sent together: where there is no webhook, this is all.
  const [known] = await Promise.all([knownWebhooks(tx, events), markHours(tx, events)]);
  const changed = new Map<string, Folded<WebhookState>>();
  const candidates: Candidate[] = [];
  let live = liveByAccount(known);
  for (const event of events) {
    if (event.stream.startsWith(WEBHOOKS)) {
      for (const [stream, folded] of foldBatch<WebhookState>([event], known, webhook)) {
        known.set(stream, folded);
        changed.set(stream, folded);
      }
      live = liveByAccount(known);
    } else if (isTold(event.type)) {
      const { account_id } = event.metadata;
      const webhooks = event.type === 'endpoint.connectivity_lost' ? [...live.values()].flat() : live.get(account_id ?? '');
      for (const webhook of webhooks ?? []) if (mayBeTold(event, webhook)) candidates.push({ event, webhook });
    }
  }
  for (const folded of changed.values()) await saveWebhook(tx, folded);
  return candidates;
}

function liveByAccount(known: Map<string, Folded<WebhookState>>): Map<string, webhook.Webhook[]> {
  const live = [...known.values()].map(({ state }) => state).filter(isLive);
  return Map.groupBy(live, ({ account_id }) => account_id);
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
}

async function endThoseOfRemoved(tx: Transaction, events: StoredEvent[]): Promise<void> {
  const removed = events.filter(({ type }) => type === 'webhook.removed').map(({ stream }) => stream.slice(WEBHOOKS.length));
  if (removed.length === 0) return;
  // First of all: one under way has written its deliveries by then, or writes no more.
  await tx`delete from work.webhook_replays where webhook_id = any(${removed}::text[])`;
  await tx`
    update work.deliveries
       set status = 'failed', ended_at = now(), last_error = 'the webhook was removed', claim_id = null, lease_until = null
     where webhook_id = any(${removed}::text[]) and status = 'pending'`;
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
