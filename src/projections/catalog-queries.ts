import type { Sql } from '../adapters/postgres/connect.ts';
import type { Endpoint } from '../domain/endpoint.ts';
import type { KeyState } from '../domain/key.ts';

export type Key = Exclude<KeyState, { status: 'none' }>;

/** An endpoint and the revision of its stream. */
export type ConfiguredEndpoint = Endpoint & { revision: number };

/** Every endpoint that is configured now, by name. */
export async function listEndpoints(sql: Sql): Promise<ConfiguredEndpoint[]> {
  const rows = await sql<{ state: Endpoint; revision: number }[]>`
    select state, revision from read.endpoints where not removed order by name`;
  return rows.map(({ state, revision }) => ({ ...state, revision }));
}

/** Every key, revoked and expired ones too, newest first. */
export async function listKeys(sql: Sql): Promise<Key[]> {
  const rows = await sql<{ state: Key }[]>`select state from read.keys order by key_id desc`;
  return rows.map(({ state }) => state);
}
