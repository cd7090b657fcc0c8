import { createEventStoreDb } from '../../../../src/adapters/event-store/eventstoredb/log.ts';
import { toRecord } from '../../../../src/adapters/event-store/eventstoredb/records.ts';
import type { EventStore } from '../../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../../src/adapters/event-store/postgres/log.ts';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import { startFakeEventStoreDb } from '../../../support/event-store/fake/server.ts';
import { changeLog, replaceLog } from '../../../support/event-store/replace-log.ts';
import {
  openTestInstallation,
  type TestInstallation,
} from '../../../support/service/installation.ts';

/** An installation whose log can be replaced, past every protection. */
export interface Tampered {
  installation: TestInstallation;
  /** Replaces all events. `head` is what an embedded log says of its end. */
  replaceLog(events: readonly StoredEvent[], head: bigint): Promise<void>;
  /** Opens the log as another process does. The caller closes it. */
  openStore(): EventStore;
  close(): Promise<void>;
}

/** An embedded log, changed by a superuser. */
export async function openEmbedded(): Promise<Tampered> {
  const installation = await openTestInstallation();
  const { sql, config } = installation;
  await sql`alter table log.events drop constraint events_stream_revision_key`;
  return {
    installation,
    replaceLog: (events, head) =>
      changeLog(sql, (tx) => replaceLog(tx, config.streamPrefix, events, head)),
    openStore: () => createPostgresLog({ sql, prefix: config.streamPrefix, keepsUnreadable: true }),
    close: () => installation.close(),
  };
}

/** A log in an EventStoreDB that serves changed events. */
export async function openEventStoreDb(): Promise<Tampered> {
  const server = await startFakeEventStoreDb();
  const installation = await openTestInstallation({ EVENTSTORE_URL: server.url });
  const prefix = installation.config.streamPrefix;
  return {
    installation,
    async replaceLog(events) {
      server.log.replace(
        [...events]
          .sort((a, b) => Number(a.position - b.position))
          .map((event) => {
            const { id, type, data, metadata } = toRecord(event);
            return {
              id: String(id),
              type,
              contentType: 'application/json',
              stream: prefix + event.stream,
              revision: BigInt(event.revision),
              position: event.position,
              data: Buffer.from(data),
              metadata: Buffer.from(metadata),
            };
          }),
      );
    },
    // No node leads but this one, so an event that is missing stays missing.
    openStore: () => createEventStoreDb({ url: server.url, prefix, staleMs: 0 }),
    async close() {
      await installation.close();
      server.close();
    },
  };
}
