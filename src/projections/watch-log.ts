import type { Logger } from 'pino';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import { pause } from '../concurrency/pause.ts';
import { loadCheckpoint, verifyCheckpoint, WrongLog } from './checkpoint.ts';

const LOOK_MS = 30_000;

/**
 * Throws WrongLog if another log takes the place of the one that the tables follow: an older copy
 * was restored, for example. Consumers notice that too, but a process with only the role `api` or
 * `monitor` has none, and would go on appending. Returns when the signal aborts.
 */
export async function watchLog(
  { sql, store, logId, logger }: { sql: Sql; store: EventStore; logId: string; logger: Logger },
  signal: AbortSignal,
  lookMs = LOOK_MS,
): Promise<void> {
  for (;;) {
    await pause(lookMs, signal);
    if (signal.aborted) return;
    try {
      const checkpoint = await loadCheckpoint(sql, 'read.checkpoints', 'catalog');
      if (checkpoint) await verifyCheckpoint(store, 'catalog', checkpoint, logId);
    } catch (error) {
      if (error instanceof WrongLog) throw error;
      logger.debug({ err: error }, 'could not look whether the tables follow the log');
    }
  }
}
