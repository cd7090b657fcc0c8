import { aborted } from '../../concurrency/aborted.ts';
import { pause } from '../../concurrency/pause.ts';
import { DomainError } from '../../domain/errors.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { loadCheckpoint } from '../checkpoint.ts';
import { type ConsumerDeps, type ConsumerStatus, publicReason } from '../consumer.ts';
import { PROJECTIONS } from '../read-models.ts';
import { rebuildProjection } from './rebuild.ts';

const LOOK_MS = 2_000;

/**
 * Rebuilds the tables of a projection that an older version made, or waits for the process that
 * rebuilds them. Returns when they have this version or a newer one, or when the signal aborts.
 * Retries after a failure. Never throws.
 */
export async function rebuildOutdated(
  deps: ConsumerDeps,
  name: ProjectionName,
  signal: AbortSignal,
  report: (status: ConsumerStatus) => void,
): Promise<void> {
  const isOutdated = async () => {
    const checkpoint = await loadCheckpoint(deps.sql, 'read.checkpoints', name);
    return checkpoint !== null && checkpoint.version < PROJECTIONS[name].version;
  };
  deps.logger.warn(
    { projection: name },
    'the tables of this projection are from an older version; they are being rebuilt',
  );
  report({ state: 'rebuilding', share: 0 });
  while (!signal.aborted) {
    try {
      if (!(await isOutdated())) return;
      const rebuilding = rebuildProjection(deps, name, ({ share }) =>
        report({ state: 'rebuilding', share }),
      );
      // A shutdown does not wait for the rebuild, which ends when the installation closes.
      await Promise.race([rebuilding, aborted(signal)]);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof DomainError && error.code === 'unavailable')
        report({ state: 'rebuilding', share: null });
      else {
        deps.logger.error({ err: error, projection: name }, 'a rebuild failed; retrying in 2 s');
        report({ state: 'failed', error: `its rebuild failed: ${publicReason(error)}` });
      }
      await pause(LOOK_MS, signal);
    }
  }
}
