import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import type { ReplayFrom } from '../../contract/webhooks/deliveries.ts';
import { fieldError, notFound } from '../../domain/errors.ts';
import { upcast } from '../../domain/events/upcast.ts';
import { timeOf } from '../../domain/ids.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';
import { inOneProcess } from '../in-one-process.ts';
import { composeDeliveries, mayReceive } from './compose.ts';
import { enqueueAgain } from './delivery-table/insert.ts';
import { positionBefore } from './event-times.ts';
import { DELIVERED_STREAMS, hasFollowedTo } from './outbox.ts';
import {
  endReplay,
  moveReplay,
  nextReplay,
  REPLAYS_CHANNEL,
  type Replay,
  saveReplay,
} from './replay-table.ts';

const BATCH = 500;
/** How many batches of a replay run before the next replay gets its turn. */
const TURN_BATCHES = 4;
const LOOK_MS = 5_000;
/** How often a replay looks whether the outbox has reached its end. */
const FOLLOWED_MS = 100;
/** The limit for the search for an event: a client waits for its result. */
const SEARCH_LIMIT_MS = 10_000;
/** An event has the time of its decision. Its append may be repeated for a while after that. */
const SLACK_MS = 3_600_000;
/**
 * How many events in a row are later than that when the search for an event ends. Fewer may be of a
 * machine whose clock is ahead.
 */
const LATER_IN_A_ROW = 1_000;

/**
 * Schedules a replay: sends a webhook, in the background, all events that it subscribes to, from a
 * place in the log up to now. It includes events that the webhook never received, and events that
 * it has received. The rest of an earlier replay is merged into it. Throws `not_found` for an event
 * that is unknown or of another account. Throws `validation_failed` if the search for the event
 * takes more than ten seconds, or if `left` aborts it.
 */
export async function replay(
  { sql, store }: { sql: Sql; store: EventStore },
  webhookId: string,
  from: ReplayFrom,
  left: AbortSignal = new AbortController().signal,
): Promise<void> {
  const until = (await store.head()) ?? 0n;
  const position =
    'time' in from
      ? await positionBefore(sql, Date.parse(from.time))
      : await positionBeforeEvent(sql, store, { webhookId, eventId: from.eventId }, left);
  const since = 'time' in from ? from.time : null;
  await saveReplay(sql, { webhook_id: webhookId, position, until_position: until, since });
}

async function positionBeforeEvent(
  sql: Sql,
  store: EventStore,
  { webhookId, eventId }: { webhookId: string; eventId: string },
  left: AbortSignal,
): Promise<bigint> {
  const time = timeOf(eventId);
  const unknown = notFound('event');
  if (time > Date.now() + SLACK_MS) throw unknown;
  const past = new Date(time + SLACK_MS).toISOString();
  const signal = AbortSignal.any([left, AbortSignal.timeout(SEARCH_LIMIT_MS)]);
  let before = await positionBefore(sql, time - SLACK_MS);
  let later = 0;
  for await (const { events, position, caughtUp } of store.subscribe({
    from: before || null,
    signal,
    streams: DELIVERED_STREAMS,
  })) {
    const found = events.findIndex(({ id }) => id === eventId);
    if (found >= 0) {
      const account = events[found]?.metadata.account_id ?? null;
      if (!(await findWebhook({ sql, store }, account, webhookId))) throw unknown;
      return events[found - 1]?.position ?? before;
    }
    const areLater = events.every(({ metadata }) => metadata.occurred_at > past);
    later = areLater ? later + events.length : 0;
    if (caughtUp || later >= LATER_IN_A_ROW) throw unknown;
    before = position;
  }
  throw fieldError(
    'from',
    'The search for this event in the log took too long: start from a time instead',
  );
}

export interface ReplayDeps {
  sql: Sql;
  store: EventStore;
  locks: Locks;
  logger: Logger;
}

/**
 * Runs the scheduled replays in turns, in one process of the installation at a time. Runs until the
 * signal aborts.
 */
export async function runReplays(deps: ReplayDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, REPLAYS_CHANNEL, wakeUp.wake, wakeUp.wake);
  let last = '';
  await inOneProcess(deps.locks, 'webhook replays', signal, async (stop) => {
    stop.addEventListener('abort', wakeUp.wake);
    while (!stop.aborted) {
      try {
        const next = await nextReplay(deps.sql, last);
        if (next) {
          // The outbox follows the webhooks. One that lags has an earlier subscription.
          const isFollowed = await hasFollowedTo(deps, next.until_position, stop);
          const current = isFollowed ? await nextReplay(deps.sql, last) : null;
          last = next.webhook_id;
          if (!isFollowed) await sleep(FOLLOWED_MS, undefined, { signal: stop });
          else if (current?.id === next.id) await advance(deps, current, stop);
          continue;
        }
      } catch (error) {
        if (stop.aborted) break;
        deps.logger.error({ err: error }, 'a replay has stopped; continuing in 5 s');
      }
      await wakeUp.wait(LOOK_MS);
    }
  });
  unlisten();
}

/** Runs a turn of a replay: a few batches, or the rest of it. */
async function advance(
  { sql, store }: ReplayDeps,
  replay: Replay,
  signal: AbortSignal,
): Promise<void> {
  const { id, webhook, until_position, since } = replay;
  let saved = replay.position;
  let batches = 0;
  if (webhook.status === 'removed' || saved >= until_position) {
    await endReplay(sql, { id, from: saved });
    return;
  }
  for await (const batch of store.subscribe({
    from: saved || null,
    signal,
    batchSize: BATCH,
    streams: DELIVERED_STREAMS,
  })) {
    const candidates = batch.events
      .filter(
        ({ position, metadata }) =>
          position <= until_position && (since === null || metadata.occurred_at >= since),
      )
      .filter((event) => mayReceive(event, webhook))
      .map((event) => ({ event: upcast(event), webhook }));
    const deliveries = await composeDeliveries(store, candidates, batch.events);
    // The replay ends at the newest event of the log. If that event is of another installation, no
    // batch reaches it, so the replay also ends when it has caught up.
    const ended = batch.caughtUp || batch.position >= until_position;
    const moved = (await sql.begin(async (tx) => {
      // The position moves first. If another process has moved it, that process enqueued the batch.
      const ours = await (ended
        ? endReplay(tx, { id, from: saved })
        : moveReplay(tx, { id, from: saved, to: batch.position }));
      if (ours) await enqueueAgain(tx, deliveries);
      return ours;
    })) as boolean;
    if (ended || !moved || ++batches === TURN_BATCHES) return;
    saved = batch.position;
  }
}
