import type { Installation } from '../installation.ts';
import { PROJECTIONS, projectionConsumer } from '../projections/read-models.ts';
import { untilCaughtUp } from '../projections/until-caught-up.ts';
import { terminal } from './program/terminal.ts';

/** Waits until the tree has all events of the log. Folds them itself if no service runs. */
export async function waitForTree(installation: Installation): Promise<void> {
  const consumer = projectionConsumer(PROJECTIONS.proof);
  await untilCaughtUp(installation, consumer, terminal().stopSignal(), { orByOurselves: true });
}
