import type { Transaction } from '../adapters/postgres/connect.ts';
import type { EndpointState } from '../domain/endpoint.ts';
import * as endpoint from '../domain/endpoint.ts';
import type { StoredEvent } from '../domain/event.ts';
import type { KeyState } from '../domain/key.ts';
import * as key from '../domain/key.ts';
import { type Folded, foldBatch } from './fold.ts';
import type { Projection } from './projection.ts';

const ENDPOINTS = 'endpoint-';
const KEYS = 'key-';

/** Endpoints and API keys as they are now. */
export const catalogProjection: Projection = {
  name: 'catalog',
  version: 1,
  streams: [ENDPOINTS, KEYS],
  tables: ['endpoints', 'keys'],

  async create(tx, schema) {
    await tx`
      create table ${tx(schema)}.endpoints (
        endpoint_id text primary key,
        name text not null,
        removed boolean not null,
        paused boolean not null,
        max_connections integer,
        revision integer not null,
        position bigint not null,
        state jsonb not null
      )`;
    await tx`
      create table ${tx(schema)}.keys (
        key_id text primary key,
        sha256 text not null unique,
        account_id text not null,
        name text not null,
        scopes text[] not null,
        expires_at timestamptz,
        revoked_at timestamptz,
        revision integer not null,
        position bigint not null,
        state jsonb not null
      )`;
  },

  async apply(tx, schema, events) {
    await applyEndpoints(
      tx,
      schema,
      events.filter(({ stream }) => stream.startsWith(ENDPOINTS)),
    );
    await applyKeys(
      tx,
      schema,
      events.filter(({ stream }) => stream.startsWith(KEYS)),
    );
  },

  async differences(tx, live, shadow, position, limit) {
    const rows = await tx<{ key: string }[]>`
      select endpoint_id as key from ${tx(live)}.endpoints l full join ${tx(shadow)}.endpoints s using (endpoint_id)
       where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position} and l is distinct from s
      union all
      select key_id from ${tx(live)}.keys l full join ${tx(shadow)}.keys s using (key_id)
       where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position} and l is distinct from s
      limit ${limit}`;
    return rows.map(({ key }) => key);
  },
};

async function applyEndpoints(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  if (events.length === 0) return;
  const ids = [...new Set(events.map(({ stream }) => stream.slice(ENDPOINTS.length)))];
  const rows = await tx<({ endpoint_id: string } & Folded<EndpointState>)[]>`
    select endpoint_id, revision, position, state from ${tx(schema)}.endpoints where endpoint_id = any(${ids})`;
  const known = new Map(rows.map(({ endpoint_id, ...folded }) => [ENDPOINTS + endpoint_id, folded]));
  for (const { state, revision, position } of foldBatch<EndpointState>(events, known, endpoint).values()) {
    if (state.status === 'none') continue;
    const configured = state.status === 'configured' ? state : null;
    const row = {
      endpoint_id: state.endpoint_id,
      name: state.name,
      removed: configured === null,
      paused: configured?.paused ?? false,
      max_connections: configured?.max_connections ?? null,
      revision,
      position: position as never,
      state: tx.json(state as never),
    };
    const { endpoint_id: _, ...changes } = row;
    await tx`insert into ${tx(schema)}.endpoints ${tx(row)} on conflict (endpoint_id) do update set ${tx(changes)}`;
  }
}

async function applyKeys(tx: Transaction, schema: string, events: StoredEvent[]): Promise<void> {
  if (events.length === 0) return;
  const ids = [...new Set(events.map(({ stream }) => stream.slice(KEYS.length)))];
  const rows = await tx<({ key_id: string } & Folded<KeyState>)[]>`
    select key_id, revision, position, state from ${tx(schema)}.keys where key_id = any(${ids})`;
  const known = new Map(rows.map(({ key_id, ...folded }) => [KEYS + key_id, folded]));
  for (const { state, revision, position } of foldBatch<KeyState>(events, known, key).values()) {
    if (state.status === 'none') continue;
    const { key_id, sha256, account_id, name, scopes, expires_at, revoked_at } = state;
    const changes = {
      sha256,
      account_id,
      name,
      scopes,
      expires_at,
      revoked_at,
      revision,
      position: position as never,
      state: tx.json(state as never),
    };
    await tx`insert into ${tx(schema)}.keys ${tx({ key_id, ...changes })} on conflict (key_id) do update set ${tx(changes)}`;
  }
}
