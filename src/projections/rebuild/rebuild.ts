/*
 * Rebuilds or verifies a projection while the live tables serve readers.
 *
 * Steps of a rebuild:
 * 1. Create the tables in the shadow schema `rebuild_NAME`, with a checkpoint `NAME:rebuild`.
 * 2. Fold the whole log into them, batch by batch. Each batch moves that checkpoint.
 * 3. Compare the live rows with the shadow rows, as of a position that both have reached. At the
 *    same time create the indexes that only queries need.
 * 4. Catch up, then take over in one short transaction: lock both checkpoints, fold the last
 *    events, replace the live tables, and rename the checkpoint. The live consumer finds its
 *    checkpoint moved and continues from the new one.
 * A verification does steps 1 to 3 without the indexes. Both drop the shadow schema at the end.
 *
 * What can go wrong:
 * - The process ends, or loses its lock. The live tables are unchanged. The next run drops the rest
 *   and starts over.
 * - Queries hold a live table for more than 300 ms. The take-over rolls back, and runs again after a
 *   pause and another catch-up. A query that comes during a take-over waits for it. So the pauses get
 *   longer: a back-up holds all tables for hours, and the readers must not wait all that time.
 * - A reader has a snapshot from before the take-over. The new tables would not show it their newest
 *   rows. So a read of several statements locks a table first (custom-plan.ts). A single statement
 *   takes its snapshot after its locks.
 * - The log does not answer during the take-over. It fails after 20 s, before Postgres ends the
 *   waiting transaction, and the live consumer continues.
 * - The live tables have another version, so other columns. A rebuild then compares nothing, and a
 *   verification fails.
 *
 * shadow.ts makes and drops the shadow tables, fold-to-end.ts fills them, compare.ts compares them,
 * and take-over.ts switches over.
 *
 * It relies on an advisory lock for each projection (one rebuild or verification at a time), and on
 * `Projection.apply`, which ignores events that it has folded before.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { type ConsumerDeps, sleepUntil } from '../consumer.ts';
import { compare } from './compare.ts';
import { type Comparison, type RebuildProgress, type Shadow, withShadow } from './shadow.ts';
import { stopVacuum, takeOver } from './take-over.ts';

/** Each is sorted by two processes of Postgres at most, and written by one. */
const INDEXES_AT_ONCE = 2;
/** Between two take-overs. Each pause but the longest is half of the next one. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
const WAITS =
  'other sessions of Postgres use the tables of this projection; its rebuild waits until it can ' +
  'replace them';

/**
 * Rebuilds a projection in shadow tables, compares them with the live tables, and switches over in
 * one transaction. The API serves meanwhile. Calls `onWait` once if other sessions of Postgres keep it
 * from switching over for long. Throws `unavailable` while another rebuild or verification of the
 * same projection runs.
 */
export function rebuildProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
  onWait: () => void = () => deps.logger.warn({ projection: name }, WAITS),
): Promise<Comparison> {
  return withShadow(deps, name, onProgress, async (shadow) => {
    const [differences] = await Promise.all([
      // Autovacuum ends a second after this asks for its lock, and does not begin again before the
      // comparison ends. So the take-over need not wait.
      compare(deps, shadow, (tx) => stopVacuum(tx, shadow.projection)),
      prepareForQueries(deps.sql, shadow),
    ]);
    await takeOverWhenFree(deps, shadow, onWait);
    return differences;
  });
}

/** Throws `unavailable` as `foldToEnd` does. */
async function takeOverWhenFree(
  deps: ConsumerDeps,
  shadow: Shadow,
  onWait: () => void,
): Promise<void> {
  const { pause = sleepUntil } = deps;
  let waits = false;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    await shadow.foldToEnd();
    if (await takeOver(deps, shadow)) return;
    if (pauseMs === LONGEST_PAUSE_MS && !waits) {
      waits = true;
      onWait();
    }
    // Readers end the pauses of consumers. None waits for the checkpoint of a rebuild.
    await pause(shadow.checkpoint, pauseMs, shadow.signal);
  }
}

/**
 * Rebuilds a projection in shadow tables, compares them with the live tables, and drops them.
 * Throws `unavailable` as a rebuild does, and if the live tables are missing or of another version.
 */
export function verifyProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  return withShadow(deps, name, onProgress, async (shadow) => {
    const differences = await compare(deps, shadow);
    if (differences !== null) return differences;
    throw new DomainError(
      'unavailable',
      `The tables of ${name} are missing or of another version, so nothing was compared. ` +
        'A process with the role projector rebuilds them; try again when that is done',
    );
  });
}

/**
 * Creates the indexes that were skipped to keep the fill fast, and analyzes the full tables.
 * Statistics of empty tables would mislead the planner.
 */
async function prepareForQueries(sql: Sql, { projection, schema }: Shadow): Promise<void> {
  const indexes = projection.indexes?.(sql, schema) ?? [];
  const createSome = async () => {
    for (let index = indexes.shift(); index; index = indexes.shift()) await index;
  };
  await Promise.all(Array.from({ length: INDEXES_AT_ONCE }, createSome));
  for (const table of projection.tables) await sql`analyze ${sql(schema)}.${sql(table)}`;
}
