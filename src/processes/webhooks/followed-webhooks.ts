/*
 * The owner of `work.outbox_webhooks`: the webhooks as the outbox has followed them, up to its own
 * place in the log.
 */
import type { Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import { streamName } from '../../domain/events/streams.ts';
import type { Webhook, WebhookState } from '../../domain/webhook.ts';
import type { Folded } from '../../projections/fold.ts';

/** Selects the webhooks, to join them with deliveries and replays. */
export function followedWebhooks(sql: Queryable) {
  return sql`select webhook_id, live, state from work.outbox_webhooks`;
}

/**
 * Returns the webhooks with these ids and the live webhooks of these accounts, by stream.
 * `noneIsLive` is true if no account has a live one.
 */
export async function loadFollowed(
  sql: Queryable,
  { webhookIds, accounts }: { webhookIds: string[]; accounts: string[] | 'all' },
): Promise<{ webhooks: Map<string, Folded<WebhookState>>; noneIsLive: boolean }> {
  const all = accounts === 'all';
  const rows = await sql<
    ({ none_live: boolean; webhook_id: string | null } & Folded<WebhookState>)[]
  >`
    select none_live, webhook_id, revision, position, state
      from (select not exists (select from work.outbox_webhooks where live) as none_live) one_row
      left join work.outbox_webhooks
        on webhook_id = any(${webhookIds}::text[])
        or (live and (${all} or account_id = any(${all ? [] : accounts}::text[])))`;
  const webhooks = new Map<string, Folded<WebhookState>>();
  for (const { none_live: _, webhook_id, ...folded } of rows)
    if (webhook_id !== null) webhooks.set(streamName('webhook', webhook_id), folded);
  return { webhooks, noneIsLive: rows[0]?.none_live ?? true };
}

/** Saves webhooks that have changed. */
export async function saveFollowed(
  tx: Transaction,
  changed: ReadonlyMap<string, Folded<WebhookState>>,
): Promise<void> {
  for (const folded of changed.values()) await saveWebhook(tx, folded);
}

async function saveWebhook(
  tx: Transaction,
  { state, revision, position }: Folded<WebhookState>,
): Promise<void> {
  if (state.status === 'none') return;
  const { webhook_id, account_id } = state;
  const changes = {
    account_id,
    live: isLive(state),
    revision,
    position: position as never,
    state: tx.json(state as never),
  };
  await tx`
    insert into work.outbox_webhooks ${tx({ webhook_id, ...changes })}
    on conflict (webhook_id) do update set ${tx(changes)}`;
}

/** Removes all webhooks, before a rebuild. */
export async function forgetFollowed(tx: Transaction): Promise<void> {
  await tx`delete from work.outbox_webhooks`;
}

/** Returns whether a webhook receives events now. */
export function isLive(state: WebhookState): state is Webhook {
  return state.status === 'active' && state.enabled;
}
