import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type CheckpointSink, SinkRefuses } from '../../adapters/checkpoint-sinks/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import { latestCheckpoint, type SignedCheckpoint } from '../../projections/proof-queries.ts';
import { consistencyProof } from '../../projections/proof-tiles.ts';
import { LIVE_SCHEMA } from '../../projections/read-models.ts';

const LOOK_MS = 5_000;
const LONGEST_PAUSE_MS = 300_000;

/** Whether a place outside keeps the last checkpoint. */
export interface SinkStatus {
  state: 'keeping';
  /** Events that the last checkpoint covers which it has taken from this process. */
  size: number | null;
  failing: 'no' | 'retries' | 'refuses';
}

interface Kept {
  sink: CheckpointSink;
  /** Revision of the last checkpoint that it has taken. */
  revision: number;
  size: number | null;
  failures: number;
  retryAt: number;
}

/**
 * Sends the last checkpoint to each sink, in one process of the installation, until the signal
 * aborts. Retries a sink that fails, with longer pauses, up to five minutes. Nothing waits for it.
 */
export async function runSinks(
  { sql, locks, logger }: { sql: Sql; locks: Locks; logger: Logger },
  sinks: CheckpointSink[],
  signal: AbortSignal,
  report: (index: number, status: SinkStatus) => void,
  lookMs = LOOK_MS,
): Promise<void> {
  if (sinks.length === 0) return;
  while (!signal.aborted) {
    const held = await locks.acquire('checkpoint sinks', signal).catch(() => null);
    if (!held) return;
    const stop = AbortSignal.any([signal, held.signal]);
    const all = sinks.map(
      (sink): Kept => ({ sink, revision: -1, size: null, failures: 0, retryAt: 0 }),
    );
    while (!stop.aborted) {
      const latest = await latestCheckpoint(sql).catch(() => null);
      const due = all.filter(({ revision, retryAt }) => {
        return latest !== null && revision < latest.revision && Date.now() >= retryAt;
      });
      await Promise.all(
        due.map(async (kept) => report(all.indexOf(kept), await send(kept, latest))),
      );
      await sleep(lookMs, undefined, { signal: stop }).catch(() => undefined);
    }
    await held.release();
  }

  async function send(kept: Kept, latest: SignedCheckpoint | null): Promise<SinkStatus> {
    if (latest === null) return { state: 'keeping', size: kept.size, failing: 'no' };
    const { size, note, revision } = latest;
    try {
      await kept.sink.keep({ size, note }, (from) =>
        consistencyProof(sql, LIVE_SCHEMA, from, size),
      );
      Object.assign(kept, { revision, size, failures: 0, retryAt: 0 });
      return { state: 'keeping', size, failing: 'no' };
    } catch (error) {
      const pause = Math.min(lookMs * 2 ** kept.failures, LONGEST_PAUSE_MS);
      kept.failures += 1;
      kept.retryAt = Date.now() + pause;
      const sink = sinks.indexOf(kept.sink) + 1;
      logger.warn({ err: error, sink, size }, 'a sink did not take a checkpoint; retrying');
      const refuses = error instanceof SinkRefuses;
      return { state: 'keeping', size: kept.size, failing: refuses ? 'refuses' : 'retries' };
    }
  }
}
