/*
 * The owner of `work.outbox_webhooks`: the webhooks as the outbox has followed them, up to its own
 * place in the log.
 */
import type { Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import { streamName } from '../../domain/streams.ts';
import type { Webhook, WebhookState } from '../../domain/webhook.ts';
import type { Folded } from '../../projections/fold.ts';

/** Selects the webhooks, to join them with deliveries and replays. */
export function followedWebhooks(sql: Queryable) {
  return sql`select webhook_id, live, state from work.outbox_webhooks`;
}

/** Returns the webhooks with these ids and the live webhooks of these accounts, by stream. */
export async function loadFollowed(
  sql: Queryable,
  { webhookIds, accounts }: { webhookIds: string[]; accounts: string[] | 'all' },
): Promise<Map<string, Folded<WebhookState>>> {
  const all = accounts === 'all';
  const rows = await sql<({ webhook_id: string } & Folded<WebhookState>)[]>`
    select webhook_id, revision, position, state from work.outbox_webhooks
     where webhook_id = any(${webhookIds}::text[])
        or (live and (${all} or account_id = any(${all ? [] : accounts}::text[])))`;
  return new Map(
    rows.map(({ webhook_id, ...folded }) => [streamName('webhook', webhook_id), folded]),
  );
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
