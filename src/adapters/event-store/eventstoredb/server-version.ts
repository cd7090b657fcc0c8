import type { EventStoreDBClient } from '@eventstore/db-client';
import { EventStoreUnusable } from '../port.ts';

/** The oldest version whose subscriptions report that they have caught up. */
const OLDEST = { major: 23, minor: 10 };

/**
 * Checks the version of the server to which a client is connected. The client caches the answer
 * while it keeps the connection. Throws EventStoreUnusable if the server is too old, or reports no
 * version.
 */
export async function checkServerVersion(client: EventStoreDBClient): Promise<void> {
  const { capabilities } = client as unknown as {
    capabilities: Promise<{ serverVersion: string }>;
  };
  const { serverVersion } = await capabilities;
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(serverVersion)?.map(Number) ?? [];
  if (major === undefined || minor === undefined || isTooOld(major, minor)) {
    throw new EventStoreUnusable(
      `The event store is of version ${serverVersion}. Waybill needs EventStoreDB ` +
        `${OLDEST.major}.${OLDEST.minor} or later: upgrade the event store`,
    );
  }
}

function isTooOld(major: number, minor: number): boolean {
  return major < OLDEST.major || (major === OLDEST.major && minor < OLDEST.minor);
}
