/*
 * The process manager `outbox`: follows the event log and writes one row of `work.deliveries` for
 * each event and each webhook that receives it, with the payload as text, and one row of
 * `work.pending_deliveries`, which says that it is to be sent.
 *
 * A batch changes deliveries, webhooks and the checkpoint in one transaction, so a crash repeats the
 * whole batch or nothing. Deliverers (deliverer.ts) claim the rows, sign and send them, and record
 * the attempts. The deliverer of the same process attempts deliveries to quick webhooks before the
 * batch is saved (first-attempts.ts). A delivery that ends at once is then one row, written once.
 *
 * It folds the webhooks itself, into `work.outbox_webhooks`, and does not read the catalog: each
 * event then meets the webhooks as they were at its place in the log, at any reading speed.
 *
 * A delivery is `pending`, then `delivered` or `failed`. A retry or a replay makes it `pending`
 * again. The outbox changes existing deliveries in one case: if a webhook is removed, its pending
 * deliveries fail. The outbox fails 5,000 of them, and housekeeping fails the others.
 *
 * `work.event_times` has the first position of each hour. A replay from a time starts there
 * (replays.ts).
 *
 * What can go wrong:
 * - The outbox reads an event twice. A delivery that exists for the same webhook and event stays as
 *   it is.
 * - The checkpoint belongs to another log or to a newer state of a restored log. The consumer then
 *   rejects it. `rebuildOutbox` folds the new log and continues at its end. It sends nothing that
 *   happened before, and keeps existing deliveries.
 * - A batch lacks the first events of a transfer's or endpoint's stream. compose.ts then reads the
 *   whole stream, because a payload shows the state right after its event.
 *
 * It relies on the single active consumer of the name `outbox` (an advisory lock) and on the unique
 * key (webhook_id, event_id) of `work.deliveries`.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Queryable, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, streamPrefix } from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import type { Webhook, WebhookState } from '../../domain/webhook.ts';
import { concernsEveryAccount, webhookDecider, webhookTypeOf } from '../../domain/webhook.ts';
import { moveCheckpoint, restartCheckpoint } from '../../projections/checkpoint.ts';
import type { ConsumerDeps, PreparingConsumer } from '../../projections/consumer.ts';
import { type Folded, foldBatch } from '../../projections/fold.ts';
import { isCaughtUp, readToEnd } from '../../projections/read-to-end.ts';
import { type Candidate, composeDeliveries, mayReceive } from './compose.ts';
import type { AttemptFirst } from './deliverer/first-attempts.ts';
import { enqueue, insertedDeliveries, insertMissing } from './delivery-table/insert.ts';
import { failSomeOfRemoved } from './delivery-table/removed-webhooks.ts';
import { forgetHours, hoursOf, savedHours, saveHours } from './event-times.ts';
import { forgetFollowed, isLive, loadFollowed, saveFollowed } from './followed-webhooks.ts';
import { forgetReplays, removeReplaysOf } from './replay-table.ts';

const NAME = 'outbox';
const TABLE = 'work.checkpoints';
const VERSION = 1;
/** Events in a batch. A crash may repeat the first attempts of two batches. */
const BATCH = 256;
/** Pause after a batch while no webhook exists, in milliseconds. It saves statements. */
const IDLE_MS = 50;

/**
 * Prefixes of the streams whose events webhooks receive. Those of webhooks are only folded
 * (`foldWebhooks`).
 */
export const DELIVERED_STREAMS = (
  ['transfer', 'batch', 'flow', 'endpoint', 'key', 'log'] as const
).map(streamPrefix);
const STREAMS = [...DELIVERED_STREAMS, streamPrefix('webhook')];

/**
 * Returns whether the outbox has followed the log up to a position, and so all changes of webhooks
 * before it. Throws EventStoreUnavailable.
 */
export function hasFollowedTo(
  deps: Pick<ConsumerDeps, 'store' | 'sql'>,
  position: bigint,
  signal: AbortSignal,
): Promise<boolean> {
  const outbox = { name: NAME, table: TABLE, streams: STREAMS } as const;
  return isCaughtUp(deps, outbox, { signal, end: position });
}

/**
 * Creates the consumer that writes a delivery for each event that a webhook receives. With
 * `attemptFirst`, it lets the deliverer of its process attempt new deliveries before it writes them.
 */
export function createOutboxConsumer(
  store: EventStore,
  attemptFirst: AttemptFirst | null = null,
): PreparingConsumer {
  return {
    name: NAME,
    table: TABLE,
    version: VERSION,
    streams: STREAMS,
    batchSize: BATCH,
    async prepare(sql, events) {
      const { candidates, changed, noneIsLive } = await foldWebhooks(sql, events);
      const deliveries =
        candidates.length > 0 ? await composeDeliveries(store, candidates, events) : [];
      const hours = hoursOf(events);
      if (deliveries.length === 0 && changed.size === 0)
        return {
          writes: (tx) => savedHours(tx, hours),
          ahead: true,
          ...(noneIsLive ? { gatherMs: IDLE_MS } : {}),
        };
      // What follows meets the webhooks as this batch leaves them.
      if (changed.size > 0 || attemptFirst === null)
        return {
          apply: async (tx) => {
            await Promise.all([saveHours(tx, hours), saveFollowed(tx, changed)]);
            if (deliveries.length > 0) await enqueue(tx, deliveries);
            await endDeliveriesOfRemoved(tx, events);
          },
        };
      const { ready, rows, afterSave } = await attemptFirst({
        deliveries,
        webhooks: webhooksOf(candidates),
        isBehind: events.length >= BATCH,
      });
      return {
        ready,
        writes: (tx) => tx`${savedHours(tx, hours)} ${insertedDeliveries(tx, rows())}`,
        apply: async (tx) => {
          await saveHours(tx, hours);
          await insertMissing(tx, rows());
        },
        afterSave,
        ahead: true,
      };
    },
  };
}

/**
 * Rebuilds the outbox's state from a log that it does not know, and moves its checkpoint to the
 * end. Sends nothing that happened before. Keeps existing deliveries and deletes open replays.
 * Calls `inTransaction` in the same transaction. Throws EventStoreUnavailable if the log yields
 * nothing for ten seconds.
 *
 * Reads the log first and then writes in one short transaction. A transaction that waits for the
 * log would block the outbox, and Postgres ends one that waits for a minute.
 */
export async function rebuildOutbox(
  { sql, store, logId }: { sql: Sql; store: EventStore; logId: string },
  inTransaction: (tx: Transaction) => Promise<void> = async () => undefined,
): Promise<void> {
  const webhooks = new Map<string, Folded<WebhookState>>();
  const hours = new Map<string, bigint>();
  let position = 0n;
  let last: StoredEvent | null = null;
  for await (const batch of readToEnd(store, STREAMS)) {
    const events = batch.events.map(upcast);
    const changes = events.filter(isOfWebhook);
    for (const [stream, folded] of foldBatch<WebhookState>(changes, webhooks, webhookDecider))
      webhooks.set(stream, folded);
    for (const [hour, first] of hoursOf(events)) if (!hours.has(hour)) hours.set(hour, first);
    last = events.at(-1) ?? last;
    position = batch.position;
  }
  await sql.begin(async (tx) => {
    await forgetFollowed(tx);
    await forgetHours(tx);
    await forgetReplays(tx);
    const own = { table: TABLE, name: NAME, version: VERSION } as const;
    await restartCheckpoint(tx, own, logId);
    await saveFollowed(tx, webhooks);
    await saveHours(tx, hours);
    if (position > 0n) await moveCheckpoint(tx, { ...own, from: 0n, to: position, last });
    await inTransaction(tx);
  });
}

interface FoldedBatch {
  /** Each event with the webhooks that were live at its place in the log and may receive it. */
  candidates: Candidate[];
  /** The webhooks that the batch changed, by stream. */
  changed: Map<string, Folded<WebhookState>>;
  /** True if no account had a live webhook before the batch. */
  noneIsLive: boolean;
}

async function foldWebhooks(sql: Queryable, events: StoredEvent[]): Promise<FoldedBatch> {
  const { webhooks: known, noneIsLive } = await loadFollowed(sql, {
    webhookIds: events.filter(isOfWebhook).map(({ stream }) => parseStream(stream).id),
    accounts: accountsOf(events),
  });
  const changed = new Map<string, Folded<WebhookState>>();
  const candidates: Candidate[] = [];
  let live = liveByAccount(known);
  for (const event of events) {
    if (isOfWebhook(event)) {
      for (const [stream, folded] of foldBatch<WebhookState>([event], known, webhookDecider)) {
        known.set(stream, folded);
        changed.set(stream, folded);
      }
      live = liveByAccount(known);
    } else if (webhookTypeOf(event.type) !== null) {
      const { account_id } = event.metadata;
      const webhooks = isForAll(event) ? [...live.values()].flat() : live.get(account_id ?? '');
      for (const webhook of webhooks ?? [])
        if (mayReceive(event, webhook)) candidates.push({ event, webhook });
    }
  }
  return { candidates, changed, noneIsLive };
}

function webhooksOf(candidates: Candidate[]): Map<string, Webhook> {
  return new Map(candidates.map(({ webhook }) => [webhook.webhook_id, webhook]));
}

/** Returns the accounts whose webhooks may receive these events. */
function accountsOf(events: StoredEvent[]): string[] | 'all' {
  if (events.some(isForAll)) return 'all';
  const accounts = new Set(events.map(({ metadata }) => metadata.account_id));
  return [...accounts].filter((id) => id !== null);
}

function isForAll({ type }: StoredEvent): boolean {
  const webhookType = webhookTypeOf(type);
  return webhookType !== null && concernsEveryAccount(webhookType);
}

function liveByAccount(known: Map<string, Folded<WebhookState>>): Map<string, Webhook[]> {
  const live = [...known.values()].map(({ state }) => state).filter(isLive);
  return Map.groupBy(live, ({ account_id }) => account_id);
}

function isOfWebhook({ stream }: StoredEvent): boolean {
  return parseStream(stream).kind === 'webhook';
}

async function endDeliveriesOfRemoved(tx: Transaction, events: StoredEvent[]): Promise<void> {
  const removed = events
    .filter(({ type }) => type === 'webhook.removed')
    .map(({ stream }) => parseStream(stream).id);
  if (removed.length === 0) return;
  // Must be first: a replay under way has then either committed its deliveries or writes no more.
  await removeReplaysOf(tx, removed);
  await failSomeOfRemoved(tx);
}
