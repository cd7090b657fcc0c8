/*
 * Signs the tree over the log: a checkpoint a minute, if something happened.
 *
 * One process of the installation signs, by an advisory lock. The lock only saves work. The append
 * compares revisions, so of two signers one is rejected, and no size has two roots.
 *
 * Before it signs, it compares:
 * - the last checkpoint that the tree knows with the stream of checkpoints, which must still have
 *   it
 * - the root of the tree at the size of the last checkpoint with the root that was signed. The tree
 *   must have that size once its fold has passed the checkpoint.
 * If they differ, the log was changed after it was signed. The signer then signs nothing, and
 * readiness shows why, until a person has looked at it.
 *
 * Checkpoints are events, and so they are leaves of later checkpoints. They alone cause none.
 *
 * What can go wrong:
 * - A store does not answer, or the process ends between any two steps. Nothing was signed, or the
 *   checkpoint is in the log. The next round finds either.
 * - The tree is behind the log. The checkpoint covers what is folded.
 * - The private key is not in the vault. Readiness says so; `waybill log rotate-key --lost` helps.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Cause } from '../../commands/handle.ts';
import {
  ensureSigningKey,
  type LastCheckpoint,
  type LogDeps,
  signCheckpoint,
} from '../../commands/log.ts';
import { pause } from '../../concurrency/pause.ts';
import { CHECKPOINTS, SIGNING_KEYS } from '../../domain/events/streams.ts';
import { newId } from '../../domain/ids.ts';
import { LogChanged, PROOF_REMEDY } from '../../domain/proof/log-changed.ts';
import { type CheckpointSigned, isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { loadCheckpoint } from '../../projections/checkpoint.ts';
import { type ConsumerDeps, publicReason } from '../../projections/consumer.ts';
import { findEvent } from '../../projections/newest-of-log.ts';
import { lastKeyRevision, latestCheckpoint, measureTree } from '../../projections/proof/queries.ts';
import { rootAt } from '../../projections/proof/tiles.ts';
import { LIVE_SCHEMA } from '../../projections/read-models.ts';
import { inOneProcess } from '../in-one-process.ts';

const EVERY_MS = 60_000;
const RETRY_AFTER_MS = 5_000;
const ACTOR = 'system:signer';

export type SignerStatus =
  | { state: 'stand_by' }
  /** `size`: leaves that the last checkpoint covers. Null before the first. */
  | { state: 'signing'; size: number | null }
  | { state: 'failed'; error: string };

export type SignerDeps = ConsumerDeps & LogDeps;

/** Signs a checkpoint a minute in which something happened, until the signal aborts. */
export async function runSigner(
  deps: SignerDeps,
  signal: AbortSignal,
  report: (status: SignerStatus) => void,
  everyMs = EVERY_MS,
): Promise<void> {
  report({ state: 'stand_by' });
  await inOneProcess(deps.locks, 'log signer', signal, async (stop) => {
    let isFirst = true;
    let signed: CheckpointSigned | null = null;
    while (!stop.aborted) {
      let pauseMs = everyMs;
      try {
        if (isFirst) pauseMs = await untilDue(deps, everyMs);
        else signed = (await signIfNeeded(deps, newCause())) ?? signed;
        isFirst = false;
        // The tables do not show yet what was signed now.
        const sizes = [signed, await latestCheckpoint(deps.sql)].flatMap(
          (each) => each?.size ?? [],
        );
        report({ state: 'signing', size: sizes.length > 0 ? Math.max(...sizes) : null });
      } catch (error) {
        if (stop.aborted) break;
        deps.logger.error({ err: error }, 'no checkpoint could be signed; retrying in 5 s');
        report({ state: 'failed', error: publicReason(error) });
        pauseMs = Math.min(RETRY_AFTER_MS, everyMs);
      }
      await pause(pauseMs, stop);
    }
    report({ state: 'stand_by' });
  });
}

/**
 * Creates the key if there is none. Returns how many milliseconds remain until the next checkpoint
 * is due. The time counts from the last checkpoint, or from the key: processes that end within a
 * minute, one after the other, must not put it off for good.
 */
async function untilDue(deps: SignerDeps, everyMs: number): Promise<number> {
  const key = await ensureSigningKey(deps, newCause());
  const last = (await latestCheckpoint(deps.sql))?.signed_at ?? key.since;
  const left = Date.parse(last) + everyMs - Date.now();
  return Math.min(Math.max(left, 0), everyMs);
}

/**
 * Signs a checkpoint over all folded events, if any happened since the last one. Returns null if
 * none did, or if another process was first. Throws LogChanged.
 */
export async function signIfNeeded(
  deps: LogDeps & { sql: Sql },
  cause: Cause,
): Promise<CheckpointSigned | null> {
  const { sql } = deps;
  const last = await readLast(deps);
  const since = last?.data.size ?? 0;
  // Before the tree: it only grows.
  const folded = await loadCheckpoint(sql, 'read.checkpoints', 'proof');
  const { size, happened } = await measureTree(sql, since);
  if (last !== null && size < since && (folded?.position ?? 0n) >= last.position)
    throw new LogChanged(
      `a checkpoint signs ${since} events, and the tree has ${size}: rows of the table ` +
        `read.proof_tiles are missing. ${PROOF_REMEDY}`,
    );
  // The tree is behind the log, and says so itself if it stays so.
  if (size < since || happened <= 0) return null;
  if (last !== null) {
    const root = Buffer.from(await rootAt(sql, LIVE_SCHEMA, since)).toString('hex');
    if (root !== last.data.root_hash)
      throw new LogChanged(
        `the first ${since} events have the root ${root}, and the signed checkpoint says ` +
          `${last.data.root_hash}: the log was changed after it was signed, or the table ` +
          `read.proof_tiles was. ${PROOF_REMEDY}`,
      );
  }
  const root = await rootAt(sql, LIVE_SCHEMA, size);
  // A former leader of an EventStoreDB may not have the rotation that the tree covers: a replaced
  // key would sign, which verifications report as a fault.
  const revision = await lastKeyRevision(sql);
  if (revision !== null) await findEvent(deps.store, { stream: SIGNING_KEYS, revision });
  return signCheckpoint(deps, { size, root }, last, cause);
}

/** Returns the last checkpoint in the log. Throws LogChanged if one that the tree knows is gone. */
async function readLast({ sql, store }: LogDeps & { sql: Sql }): Promise<LastCheckpoint | null> {
  const known = await latestCheckpoint(sql);
  // A former leader of an EventStoreDB may not have it yet.
  if (known !== null) await findEvent(store, { stream: CHECKPOINTS, revision: known.revision });
  const events = await store.read(CHECKPOINTS, known?.revision ?? 0);
  const [first] = events;
  if (known !== null && !(first && isCheckpointEvent(first) && first.data.note === known.note))
    throw new LogChanged(
      `the checkpoint over ${known.size} events, revision ${known.revision} of ${CHECKPOINTS}, is ` +
        'not in the log any more as it was signed, or the table read.proof_checkpoints was ' +
        `changed. ${PROOF_REMEDY}`,
    );
  const event = events.at(-1);
  if (event === undefined) return null;
  if (!isCheckpointEvent(event))
    throw new LogChanged(`${event.id} in ${CHECKPOINTS} is no checkpoint`);
  const { data, revision, position } = event;
  return { data, revision, position, event };
}

function newCause(): Cause {
  return { actor: ACTOR, correlationId: newId('req') };
}
