import { endpointDecider } from '../../domain/endpoints/decider.ts';
import type { EndpointState } from '../../domain/endpoints/endpoint.ts';
import { streamPrefix } from '../../domain/events/streams.ts';
import type { KeyState } from '../../domain/key.ts';
import { keyDecider } from '../../domain/key.ts';
import type { WebhookState } from '../../domain/webhook.ts';
import { webhookDecider } from '../../domain/webhook.ts';
import { aggregateTable } from '../aggregate-table.ts';
import type { Projection } from '../projection.ts';
import { tableDifferences } from '../table-differences.ts';

const TABLES = [
  aggregateTable<EndpointState>({
    name: 'endpoints',
    kind: 'endpoint',
    key: 'endpoint_id',
    decider: endpointDecider,
    columns: (sql) => sql`
      name text not null,
      removed boolean not null,
      paused boolean not null,
      max_connections integer`,
    row(state) {
      const configured = state.status === 'configured' ? state : null;
      return {
        name: state.name,
        removed: configured === null,
        paused: configured?.paused ?? false,
        max_connections: configured?.max_connections ?? null,
      };
    },
  }),

  aggregateTable<KeyState>({
    name: 'keys',
    kind: 'key',
    key: 'key_id',
    decider: keyDecider,
    columns: (sql) => sql`
      sha256 text not null unique,
      account_id text not null,
      name text not null,
      scopes text[] not null,
      expires_at timestamptz,
      revoked_at timestamptz`,
    row: ({ sha256, account_id, name, scopes, expires_at, revoked_at }) => ({
      sha256,
      account_id,
      name,
      scopes,
      expires_at,
      revoked_at,
    }),
  }),

  aggregateTable<WebhookState>({
    name: 'webhooks',
    kind: 'webhook',
    key: 'webhook_id',
    decider: webhookDecider,
    columns: (sql) => sql`
      account_id text not null,
      removed boolean not null,
      unique (account_id, webhook_id)`,
    row: ({ account_id, status }) => ({ account_id, removed: status === 'removed' }),
  }),
];

/** The read model of endpoints, API keys and webhooks: one table each. */
export const catalogProjection: Projection = {
  name: 'catalog',
  version: 3,
  streams: TABLES.map(({ kind }) => streamPrefix(kind)),
  tables: TABLES.map(({ name }) => name),

  async create(tx, schema) {
    for (const table of TABLES) await table.create(tx, schema);
  },

  async apply(tx, schema, events) {
    for (const table of TABLES) await table.apply(tx, schema, events);
  },

  differences: tableDifferences(Object.fromEntries(TABLES.map(({ name, key }) => [name, [key]]))),
};
