import { randomBytes } from 'node:crypto';
import { describe } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import { events } from '../../adapters/event-store/events.ts';
import { describeWithPostgres } from '../postgres/test-database.ts';
import { startFakeEventStoreDb } from './fake/server.ts';

export interface EventStoreServer {
  url: string;
  /** The settings that an installation needs to use it: the URL, and its own prefix. */
  settings: Record<string, string>;
  /** Appends an event that is not the installation's: the newest one of the whole server. */
  appendForeign(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Describes a service on an EventStoreDB: on the one in memory, and on the server of
 * EVENTSTORE_URL. Without that setting, the second is skipped by name.
 */
export function describeOnEventStoreDb(
  name: string,
  tests: (start: () => Promise<EventStoreServer>) => void,
): void {
  describeWithPostgres(`${name} on the EventStoreDB engine in memory`, () =>
    tests(async () => {
      const fake = await startFakeEventStoreDb();
      return use(fake.url, async () => fake.stop());
    }),
  );
  const real = process.env.EVENTSTORE_URL;
  const onReal = () => tests(async () => use(real as string, async () => undefined));
  if (real) describeWithPostgres(`${name} on a real EventStoreDB`, onReal);
  else describe.skip(`${name} on a real EventStoreDB (skipped: no EVENTSTORE_URL)`, onReal);
}

function use(url: string, stop: () => Promise<void>): EventStoreServer {
  const run = randomBytes(6).toString('hex');
  return {
    url,
    settings: { EVENTSTORE_URL: url, WAYBILL_STREAM_PREFIX: `test_${run}_` },
    async appendForeign() {
      const stranger = createEventStoreDb({ url, prefix: `foreign_${run}_` });
      await stranger.append(`stream-${randomBytes(6).toString('hex')}`, 'no_stream', events(1));
      await stranger.close();
    },
    close: stop,
  };
}
