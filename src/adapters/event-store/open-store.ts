import type { Sql } from '../postgres/connect.ts';
import type { EventStoreDbSignIn } from './eventstoredb/client-url.ts';
import type { EventStore } from './port.ts';
import { createPostgresLog } from './postgres/log.ts';

/** The settings that choose the engine. */
export interface EngineSettings {
  /** Null for the Postgres log. */
  readonly eventStore: Readonly<EventStoreDbSignIn> | null;
  readonly streamPrefix: string;
}

/**
 * Throws EventStoreSettingsError if the settings of an EventStoreDB cannot be used. Opens nothing.
 */
export async function requireSettings({ eventStore }: EngineSettings): Promise<void> {
  if (eventStore !== null) (await import('./eventstoredb/client-url.ts')).clientUrl(eventStore);
}

/** Opens the log of the configured engine. `keepsUnreadable` as in `PostgresLogOptions`. */
export async function openStore(
  { eventStore, streamPrefix: prefix }: EngineSettings,
  sql: Sql,
  { keepsUnreadable = false }: { keepsUnreadable?: boolean } = {},
): Promise<EventStore> {
  if (eventStore === null) return createPostgresLog({ sql, prefix, keepsUnreadable });
  // Loaded only if it is used: it would add 0.1 s to every command.
  const { createEventStoreDb } = await import('./eventstoredb/log.ts');
  return createEventStoreDb({ ...eventStore, prefix, keepsUnreadable });
}
