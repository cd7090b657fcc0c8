import { randomBytes } from 'node:crypto';
import { createEventStoreDb } from '../../src/adapters/event-store/eventstoredb/log.ts';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import type { Sql } from '../../src/adapters/postgres/connect.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import type { Bench } from './bench.ts';

const RUN = randomBytes(6).toString('hex');

/**
 * Returns the settings for the log of a service. It is on the server of EVENTSTORE_URL, under a
 * prefix that belongs to the service's database, or in that database without EVENTSTORE_URL.
 */
export function logSettings(databaseUrl: string): Record<string, string> {
  const url = process.env.EVENTSTORE_URL;
  return { WAYBILL_STREAM_PREFIX: prefixOf(databaseUrl), ...(url ? { EVENTSTORE_URL: url } : {}) };
}

function prefixOf(databaseUrl: string): string {
  if (!process.env.EVENTSTORE_URL) return 'waybill_';
  const database = new URL(databaseUrl).pathname.replaceAll(/\W/g, '');
  return `bench_${RUN}_${database}_`.slice(0, 64);
}

/** Opens the log of a service, on the engine that the service uses. */
export function openLog({ defer }: Bench, databaseUrl: string, sql: Sql): EventStore {
  const prefix = prefixOf(databaseUrl);
  const url = process.env.EVENTSTORE_URL;
  const log = url ? createEventStoreDb({ url, prefix }) : createPostgresLog({ sql, prefix });
  defer(() => log.close());
  return log;
}

/**
 * Returns the events after a position once this many transfers among them are completed. Throws
 * Error if a transfer fails or needs a retry.
 */
export async function untilCompleted(
  log: EventStore,
  from: bigint | null,
  transfers: number,
): Promise<StoredEvent[]> {
  const stop = new AbortController();
  const events: StoredEvent[] = [];
  let completed = 0;
  const subscription = log.subscribe({ from, signal: stop.signal, streams: ['transfer-'] });
  for await (const batch of subscription) {
    for (const event of batch.events) {
      const { reason } = event.data as { reason?: string };
      if (event.type === 'transfer.failed' || reason === 'retry')
        throw new Error(`a transfer did not go well: ${JSON.stringify(event.data)}`);
      if (event.type === 'transfer.completed') completed += 1;
    }
    events.push(...batch.events);
    if (completed >= transfers) stop.abort();
  }
  return events;
}
