import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { announceHostKeys } from '../../commands/endpoints.ts';
import type { Cause } from '../../commands/handle.ts';
import { pause } from '../../concurrency/pause.ts';
import { DomainError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { AnnouncedHostKey } from '../../domain/protocols/host-keys.ts';
import type { EndpointPool } from './pool.ts';

const LOOK_MS = 5_000;

interface RecorderDeps {
  store: EventStore;
  logger: Logger;
}

/** Records what the verified server of an endpoint has announced. Never throws. */
export type RecordAnnouncedKeys = (
  endpoint: { endpoint_id: string; name: string },
  keys: AnnouncedHostKey[],
  cause: Cause,
) => Promise<void>;

/**
 * Creates the only function that records announced host keys in the log. The stream decides which
 * of them are new, so every process may call it for every connection. It remembers what it has
 * recorded, to save reads of the stream. After a failure, the next call records them.
 */
export function createKeyRecorder({ store, logger }: RecorderDeps): RecordAnnouncedKeys {
  const recorded = new Map<string, string>();
  return async ({ endpoint_id, name }, keys, cause) => {
    const text = JSON.stringify(keys);
    if (keys.length === 0 || recorded.get(endpoint_id) === text) return;
    try {
      await announceHostKeys({ store }, endpoint_id, keys, cause);
      recorded.set(endpoint_id, text);
    } catch (error) {
      // The endpoint was removed a moment ago.
      if (error instanceof DomainError && error.code === 'not_found') return;
      logger.warn({ err: error, endpoint: name }, 'announced host keys could not be recorded');
    }
  };
}

/** Records what the connections of these pools have heard, until the signal aborts. */
export async function watchHostKeys(
  { actor, ...deps }: RecorderDeps & { actor: string },
  pools: EndpointPool[],
  signal: AbortSignal,
): Promise<void> {
  const record = createKeyRecorder(deps);
  const cause = { actor, correlationId: newId('req') };
  while (!signal.aborted) {
    await pause(LOOK_MS, signal);
    for (const pool of pools)
      for (const { endpoint, keys } of await pool.announcedHostKeys())
        await record(endpoint, keys, cause);
  }
}
