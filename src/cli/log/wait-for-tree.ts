import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import type { Installation } from '../../installation.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { catchUpIfIdle } from '../../projections/run-consumer.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { note } from '../program/output.ts';
import { terminal } from '../program/terminal.ts';

const SAY_AFTER_MS = 5_000;

/**
 * Waits until the tree has all events of the log. Folds them itself if no service runs. Throws the
 * error of a fold that cannot continue, such as LogChanged, and Stopped if the user stops the wait.
 * An outage passes.
 */
export async function waitForTree(installation: Installation): Promise<void> {
  const consumer = projectionConsumer(PROJECTIONS.proof);
  using stop = terminal().stopSignal();
  const saying = setTimeout(
    () =>
      note(
        'Waiting until the tree has all events of the log. If that takes long, /health/ready of ' +
          'the service says why',
      ),
    SAY_AFTER_MS,
  );
  try {
    await catchUpIfIdle(installation, consumer, stop).catch((error: unknown) => {
      if (!stop.aborted && !isStoreUnavailable(error)) throw error;
    });
    await untilCaughtUp(installation, consumer, stop, { orByOurselves: true });
    stop.throwIfAborted();
  } finally {
    clearTimeout(saying);
  }
}
