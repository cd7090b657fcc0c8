/*
 * The owner of `work.webhook_replays`: one row for each webhook with a replay under way.
 */
import type { Queryable, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { followedWebhooks } from './followed-webhooks.ts';

/** Notified when a replay was scheduled. */
export const REPLAYS_CHANNEL = 'waybill_replays';

export interface Replay {
  id: bigint;
  webhook_id: string;
  /** How far it has come, inclusive. */
  position: bigint;
  until_position: bigint;
  /** Leaves out events that occurred before. ISO 8601, or null. */
  since: string | null;
  webhook: Webhook;
}

/** Saves a replay. The rest of an earlier replay of the webhook is merged into it. */
export async function saveReplay(
  sql: Sql,
  { webhook_id, position, until_position, since }: Omit<Replay, 'id' | 'webhook'>,
): Promise<void> {
  // A new id: the process that works on the old one finds it gone, and loads the extended replay.
  await sql`
    insert into work.webhook_replays as r (webhook_id, position, until_position, since)
    values (${webhook_id}, ${position}, ${until_position}, ${since})
    on conflict (webhook_id) do update set
      id = default,
      position = least(r.position, excluded.position),
      until_position = greatest(r.until_position, excluded.until_position),
      since = case when r.since is not null and excluded.since is not null
                   then least(r.since, excluded.since) end`;
  await sql`select pg_notify(${REPLAYS_CHANNEL}, '')`;
}

/** Returns the next replay after the webhook `last`. Null if none is left. */
export async function nextReplay(sql: Sql, last: string): Promise<Replay | null> {
  const [next] = await sql<Replay[]>`
    select r.id, webhook_id, r.position, r.until_position, r.since, w.state as webhook
      from work.webhook_replays r join (${followedWebhooks(sql)}) w using (webhook_id)
     order by webhook_id <= ${last}, webhook_id limit 1`;
  return next ?? null;
}

/** Moves a replay. Returns false if another process has moved, merged or ended it. */
export async function moveReplay(
  tx: Queryable,
  { id, from, to }: { id: bigint; from: bigint; to: bigint },
): Promise<boolean> {
  const { count } = await tx`
    update work.webhook_replays set position = ${to} where id = ${id} and position = ${from}`;
  return count > 0;
}

/** Ends a replay. Returns false if another process has moved, merged or ended it. */
export async function endReplay(
  tx: Queryable,
  { id, from }: { id: bigint; from: bigint },
): Promise<boolean> {
  const { count } = await tx`
    delete from work.webhook_replays where id = ${id} and position = ${from}`;
  return count > 0;
}

/** Removes the replays of removed webhooks. */
export async function removeReplaysOf(tx: Transaction, webhookIds: string[]): Promise<void> {
  await tx`delete from work.webhook_replays where webhook_id = any(${webhookIds}::text[])`;
}

/** Removes all replays, before a rebuild. */
export async function forgetReplays(tx: Transaction): Promise<void> {
  await tx`delete from work.webhook_replays`;
}
