import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { endpointDecider } from '../../domain/endpoints/decider.ts';
import {
  addressIn,
  type Endpoint,
  type EndpointState,
  hostOf,
} from '../../domain/endpoints/endpoint.ts';
import { streamName } from '../../domain/events/streams.ts';
import { isId } from '../../domain/ids.ts';
import { type Key, keyDecider } from '../../domain/key.ts';
import { type Webhook, type WebhookState, webhookDecider } from '../../domain/webhook.ts';
import { foldStream, type Stores } from '../fold.ts';
import { matches } from '../lists.ts';
import { keyUses } from './key-use.ts';

/** A key and its last use, to the minute. Null if it was never used. */
export type ShownKey = Key & { last_used_at: string | null };

/** An endpoint and the revision of its stream. */
export type ConfiguredEndpoint = Endpoint & { revision: number };

/** Returns the configured endpoints that have all words of `q`, or all, sorted by name. */
export async function listEndpoints(sql: Sql, q?: string): Promise<ConfiguredEndpoint[]> {
  const rows = await sql<{ state: Endpoint; revision: number }[]>`
    select state, revision from read.endpoints where not removed order by name`;
  return rows
    .filter(({ state }) => q === undefined || matches(q, textsOf(state)))
    .map(({ state, revision }) => ({ ...state, revision }));
}

function textsOf({ endpoint_id, name, settings }: Endpoint): string[] {
  return [endpoint_id, name, settings.protocol, hostOf(settings), addressIn(settings)];
}

/**
 * Returns an expression that changes whenever a key or an endpoint may have changed: the id of a
 * table and the last event of the catalog. A rebuild replaces the tables. It waits for no lock of
 * them.
 */
export function versionOfCatalog(sql: Queryable): Fragment {
  return sql`
    concat_ws(' ', to_regclass('read.endpoints')::oid,
              (select event_id from read.checkpoints where name = 'catalog'))`;
}

/** Returns a configured endpoint, or null if there is none with this id. */
export async function findEndpoint(
  { sql, store }: Stores,
  endpointId: string,
): Promise<ConfiguredEndpoint | null> {
  if (!isId('end', endpointId)) return null;
  const [row] = await sql<{ state: EndpointState; revision: number }[]>`
    select state, revision from read.endpoints where endpoint_id = ${endpointId}`;
  const found =
    row ?? (await foldStream(store, streamName('endpoint', endpointId), endpointDecider));
  return found?.state.status === 'configured' ? { ...found.state, revision: found.revision } : null;
}

interface KeyRow {
  state: Key;
  used_at: string | null;
}

/** Returns all keys, newest first, including revoked and expired ones. */
export async function listKeys(sql: Sql): Promise<ShownKey[]> {
  const rows = await sql<KeyRow[]>`
    select state, used_at from read.keys left join (${keyUses(sql)}) uses using (key_id)
     order by key_id desc`;
  return rows.map(toKey);
}

/** Returns whether an account has had a key. One that was revoked counts. */
export async function hasHadKey(sql: Sql, accountId: string): Promise<boolean> {
  const rows = await sql`select from read.keys where account_id = ${accountId} limit 1`;
  return rows.length > 0;
}

/** Returns a key, also a revoked or expired one, or null if there is none with this id. */
export async function findKeyById({ sql, store }: Stores, keyId: string): Promise<ShownKey | null> {
  if (!isId('key', keyId)) return null;
  const [row] = await sql<KeyRow[]>`
    select state, used_at from read.keys left join (${keyUses(sql)}) uses using (key_id)
     where key_id = ${keyId}`;
  if (row) return toKey(row);
  const folded = await foldStream(store, streamName('key', keyId), keyDecider);
  return folded && { ...folded.state, last_used_at: null };
}

function toKey({ state, used_at }: KeyRow): ShownKey {
  return { ...state, last_used_at: used_at };
}

/** Returns the webhooks of an account, newest first. */
export async function listWebhooks(sql: Sql, accountId: string): Promise<Webhook[]> {
  const rows = await sql<{ state: Webhook }[]>`
    select state from read.webhooks
     where account_id = ${accountId} and not removed order by webhook_id desc`;
  return rows.map(({ state }) => state);
}

/**
 * Returns a webhook, or null if it does not exist, was removed or is another account's. `accountId`
 * null means any account.
 */
export async function findWebhook(
  { sql, store }: Stores,
  accountId: string | null,
  webhookId: string,
): Promise<Webhook | null> {
  if (!isId('whk', webhookId)) return null;
  const [row] = await sql<{ state: WebhookState }[]>`
    select state from read.webhooks where webhook_id = ${webhookId}`;
  const found = row ?? (await foldStream(store, streamName('webhook', webhookId), webhookDecider));
  if (found?.state.status !== 'active') return null;
  return accountId === null || found.state.account_id === accountId ? found.state : null;
}

export async function countWebhooks(sql: Sql, accountId: string): Promise<number> {
  const [row] = await sql<[{ webhooks: number }]>`
    select count(*)::integer as webhooks from read.webhooks
     where account_id = ${accountId} and not removed`;
  return row.webhooks;
}

/**
 * Returns which of these vault records are in use: credentials of endpoints, secrets of webhooks,
 * and previous secrets until an hour after their grace period.
 */
export async function recordsInUse(sql: Sql, recordIds: string[]): Promise<string[]> {
  const rows = await sql<{ record: string }[]>`
    select state ->> 'credentials_record' as record from read.endpoints
     where state ->> 'credentials_record' = any(${recordIds})
    union all
    select record
      from read.webhooks
      cross join lateral (values
        (state ->> 'secret_record', 'infinity'::timestamptz),
        (state #>> '{previous,secret_record}', (state #>> '{previous,until}')::timestamptz)
      ) as secrets(record, until)
     where not removed and record = any(${recordIds}) and until > now() - interval '1 hour'`;
  return rows.map(({ record }) => record);
}
