import type { Logger } from 'pino';
import { decodeTime } from 'ulid';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import { createBell } from '../../bell.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import { upcast } from '../../domain/upcast.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { composeDeliveries, mayBeTold } from './compose.ts';
import { TOLD_STREAMS } from './outbox.ts';
import { enqueueAgain } from './queue.ts';

const REPLAYS_CHANNEL = 'waybill_replays';
const BATCH = 500;
/** So long a replay is at work before it is another one's turn. */
const TURN_BATCHES = 4;
const LOOK_MS = 5_000;
/** For the search for an event, whose asker waits. */
const SEARCH_LIMIT_MS = 10_000;
/** An event is dated when it is decided on; its append may be repeated for a while. */
const SLACK_MS = 3_600_000;

/** Where a replay begins: with what occurred at a time (ISO 8601) or later, or with one event and all behind it in the log. */
export type ReplayFrom = { time: string } | { eventId: string };

/**
 * Has a webhook told again, in the background, of all that it subscribes to from somewhere in the log up
 * to now: also of what it was never told, and of what has arrived. What is still to be replayed of an earlier
 * request becomes one with it. Throws `not_found` for an event that is unknown or another account's, and
 * `validation_failed` where the search for it takes too long (ten seconds), or is given up by `left`.
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
  // Under a new id: who is at work on the old one finds it gone, and learns what has been added.
  await sql`
    insert into work.webhook_replays as r (webhook_id, position, until_position, since) values (${webhookId}, ${position}, ${until}, ${since})
    on conflict (webhook_id) do update set
      id = default,
      position = least(r.position, excluded.position),
      until_position = greatest(r.until_position, excluded.until_position),
      since = case when r.since is not null and excluded.since is not null then least(r.since, excluded.since) end`;
  await sql`select pg_notify(${REPLAYS_CHANNEL}, '')`;
}

/** A position behind which everything lies that occurred at a time (milliseconds since 1970) or later; 0 for the start. */
async function positionBefore(sql: Sql, time: number): Promise<bigint> {
  // The outbox has marked all that it has seen. Behind an event of an earlier mark the first of the hour is not missed:
  // an engine may know no position between two events.
  const [row] = await sql<{ position: bigint }[]>`
    with first as (select min(position) as position from work.event_times where hour >= date_trunc('hour', ${new Date(time)}::timestamptz))
    select case when first.position is null then (select position from work.checkpoints where name = 'outbox')
                else (select max(position) from work.event_times m where m.position < first.position) end as position
      from first`;
  return row?.position ?? 0n;
}

async function positionBeforeEvent(
  sql: Sql,
  store: EventStore,
  { webhookId, eventId }: { webhookId: string; eventId: string },
  left: AbortSignal,
): Promise<bigint> {
  const time = decodeTime(eventId.slice('evt_'.length));
  const unknown = new DomainError('not_found', 'There is no such event');
  if (time > Date.now() + SLACK_MS) throw unknown;
  const past = new Date(time + SLACK_MS).toISOString();
  const signal = AbortSignal.any([left, AbortSignal.timeout(SEARCH_LIMIT_MS)]);
  let before = await positionBefore(sql, time - SLACK_MS);
  for await (const { events, position, caughtUp } of store.subscribe({ from: before || null, signal, streams: TOLD_STREAMS })) {
    const found = events.findIndex(({ id }) => id === eventId);
    if (found >= 0) {
      const account = events[found]?.metadata.account_id ?? null;
      const [ours] = await sql`select from read.webhooks where webhook_id = ${webhookId} and account_id = coalesce(${account}, account_id)`;
      if (!ours) throw unknown;
      return events[found - 1]?.position ?? before;
    }
    if (caughtUp || events.some(({ metadata }) => metadata.occurred_at > past)) throw unknown;
    before = position;
  }
  throw fieldError('from', 'There is too much in the log around this event to look through it: begin with a time instead');
}

export interface ReplayDeps {
  sql: Sql;
  store: EventStore;
  locks: Locks;
  logger: Logger;
}

/** Does the replays that were asked for, in turns; one process of the installation at a time. Runs until the signal aborts. */
export async function runReplays(deps: ReplayDeps, signal: AbortSignal): Promise<void> {
  const bell = createBell();
  const listening = await deps.sql.listen(REPLAYS_CHANNEL, bell.ring, bell.ring);
  signal.addEventListener('abort', bell.ring);
  let last = '';
  while (!signal.aborted) {
    const held = await deps.locks.acquire('webhook replays', signal).catch(() => null);
    if (!held) break;
    const stop = AbortSignal.any([signal, held.signal]);
    held.signal.addEventListener('abort', bell.ring);
    while (!stop.aborted) {
      try {
        const next = await nextReplay(deps.sql, last);
        if (next) {
          last = next.webhook_id;
          await advance(deps, next, stop);
          continue;
        }
      } catch (error) {
        deps.logger.error({ err: error }, 'a replay has stopped; it goes on in a few seconds');
      }
      await bell.wait(LOOK_MS);
    }
    await held.release();
  }
  await listening.unlisten().catch(() => undefined);
}

interface Replay {
  id: bigint;
  webhook_id: string;
  position: bigint;
  until_position: bigint;
  since: string | null;
  webhook: Webhook;
}

/** The one whose turn it is after that of a webhook; null where there is none to do. */
async function nextReplay(sql: Sql, last: string): Promise<Replay | null> {
  const [next] = await sql<Replay[]>`
    select r.id, webhook_id, r.position, r.until_position, r.since, w.state as webhook
      from work.webhook_replays r join work.outbox_webhooks w using (webhook_id) order by webhook_id <= ${last}, webhook_id limit 1`;
  return next ?? null;
}

/** A turn of a replay: a few batches, or what is left of it. */
async function advance({ sql, store }: ReplayDeps, replay: Replay, signal: AbortSignal): Promise<void> {
  const { id, webhook, until_position, since } = replay;
  let kept = replay.position;
  let batches = 0;
  const end = async (tx: Sql | Transaction) =>
    (await tx`delete from work.webhook_replays where id = ${id} and position = ${kept}`).count > 0;
  const goOn = async (tx: Transaction, position: bigint) =>
    (await tx`update work.webhook_replays set position = ${position} where id = ${id} and position = ${kept}`).count > 0;
  if (webhook.status === 'removed' || kept >= until_position) {
    await end(sql);
    return;
  }
  for await (const batch of store.subscribe({ from: kept || null, signal, batchSize: BATCH, streams: TOLD_STREAMS })) {
    const candidates = batch.events
      .filter(({ position, metadata }) => position <= until_position && (since === null || metadata.occurred_at >= since))
      .filter((event) => mayBeTold(event, webhook))
      .map((event) => ({ event: upcast(event), webhook }));
    const deliveries = await composeDeliveries(store, candidates, batch.events);
    const ended = batch.position >= until_position;
    const moved = (await sql.begin(async (tx) => {
      // First of all: whoever has come further with it meanwhile, has done this.
      const held = await (ended ? end(tx) : goOn(tx, batch.position));
      if (held) await enqueueAgain(tx, deliveries);
      return held;
    })) as boolean;
    if (ended || !moved || ++batches === TURN_BATCHES) return;
    kept = batch.position;
  }
}
