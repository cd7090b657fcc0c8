/*
 * Exports transfers that ended long ago, and removes them from the log.
 *
 * 1. Sign a checkpoint over the whole log.
 * 2. Write all events of the transfers into a file, and flush it to disk.
 * 3. Append records that name the transfers, the file, the checkpoint and the leaves of the tree.
 * 4. Wait until the consumers of the log have passed the records, then remove the streams
 *    (finish.ts).
 *
 * What can go wrong:
 * - The process ends before step 3. Everything is in the log. A file without a record means
 *   nothing.
 * - The process ends in step 3 or 4. The recorded transfers leave the log later: housekeeping and
 *   the next run carry out every record. The others stay, and the next run exports them again.
 * - Two runs start at once. An advisory lock lets one begin. If it is lost, both may record the same
 *   transfers, and a repeated removal does nothing. No run completes a record that it has not
 *   carried out (finish.ts).
 *
 * The read models forget a transfer with its record, so a rebuild gives the same rows.
 */
import { createHash, type Hash } from 'node:crypto';
import { join } from 'node:path';
import { writeNewFile } from '../../adapters/durable-file.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import type { Cause } from '../../commands/handle.ts';
import { appendRecords } from '../../commands/retention.ts';
import { toAuditEvent } from '../../contract/events.ts';
import { DomainError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { CheckpointSigned } from '../../domain/proof/signed-checkpoint.ts';
import type { RemovedTransfer } from '../../domain/retention.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import type { OtherVersions } from '../../projections/read-models.ts';
import { lastRecord } from '../../projections/retention/removed-transfers.ts';
import { type CheckpointDeps, checkpointNow } from '../proof/checkpoint-now.ts';
import { type Choice, type Chosen, choose } from './choose.ts';
import { finish, RETENTION_LOCK } from './finish.ts';

/** Transfers of one file. What the records say about them is in memory. */
const IN_FILE = 20_000;
const WAIT_MS = 60_000;

export interface RetentionDeps extends ConsumerDeps, CheckpointDeps {
  otherVersions: OtherVersions;
}

export interface RetentionRun extends Choice {
  /** The folder for the files. Null counts only. */
  folder: string | null;
  /** Is called before the first event leaves as a file. */
  onExport(): Promise<void>;
  inFile?: number;
}

export interface RetentionResult {
  transfers: number;
  events: number;
  /** Null if there was nothing to do. */
  checkpoint: CheckpointSigned | null;
  files: { name: string; sha256: string; transfers: number }[];
  /** False if a consumer is behind: the recorded transfers leave the log later. */
  completed: boolean;
}

/**
 * Exports and removes the transfers of the choice. Throws `unavailable` if another run is under
 * way, if read models are to be rebuilt first, if they are behind the log, or if a store goes away.
 * Throws the reason of `stop` soon after that aborts; what is recorded then leaves the log later.
 */
export async function runRetention(
  deps: RetentionDeps,
  run: RetentionRun,
  cause: Cause,
  stop: AbortSignal = new AbortController().signal,
): Promise<RetentionResult> {
  if (deps.otherVersions.size > 0)
    throw new DomainError(
      'unavailable',
      `The tables of ${[...deps.otherVersions.keys()].join(', ')} are of another version: ` +
        'start the service of this version first',
    );
  const held = await deps.locks.tryAcquire(RETENTION_LOCK);
  if (!held)
    throw new DomainError('unavailable', 'Another run is under way; try again when it has ended');
  try {
    return await exportAndRemove(deps, run, cause, AbortSignal.any([stop, held.signal]));
  } catch (error) {
    // What was cancelled may fail in its own way.
    stop.throwIfAborted();
    throw run.folder !== null && (held.signal.aborted || isStoreUnavailable(error))
      ? interrupted(error as Error)
      : error;
  } finally {
    await held.release();
  }
}

/** Says what to do after an outage. Without the lock, nothing more was carried out. */
function interrupted(error: Error): DomainError {
  return new DomainError(
    'unavailable',
    `The run was interrupted: ${error.message}. Run the same command again when the stores ` +
      'answer: each transfer is still in the log, or a record names it. You can delete files that ' +
      'no record names',
    {},
    { cause: error },
  );
}

async function exportAndRemove(
  deps: RetentionDeps,
  { folder, onExport, inFile = IN_FILE, ...choice }: RetentionRun,
  cause: Cause,
  stop: AbortSignal,
): Promise<RetentionResult> {
  // A read model that is behind does not show the batch or run that a transfer still belongs to.
  for (const name of ['transfers', 'batches', 'flows'] as const)
    if (!(await deps.commands.catchUp(name)))
      throw new DomainError(
        'unavailable',
        `The read model ${name} is behind the log: try again when it has caught up`,
      );
  // What an interrupted run recorded is not chosen again.
  let completed = folder === null || (await finish(deps, cause, WAIT_MS, stop));
  stop.throwIfAborted();
  const checkpoint = await checkpointNow(deps, cause);
  const chosen = choose(deps, choice, checkpoint.size);
  const done: RetentionResult = { transfers: 0, events: 0, checkpoint, files: [], completed };
  for (let next = await chosen.next(); !next.done; next = await chosen.next()) {
    stop.throwIfAborted();
    if (folder === null) {
      count(done, next.value.transfer);
      continue;
    }
    if (done.files.length === 0) await onExport();
    const transfers: RemovedTransfer[] = [];
    const name = fileName(choice.endedBefore);
    const sha256 = createHash('sha256');
    const lines = exported(next.value, chosen, transfers, { inFile, sha256, stop });
    await writeNewFile(join(folder, name), lines);
    const file = { name, sha256: sha256.digest('hex') };
    stop.throwIfAborted();
    const { size, root_hash } = checkpoint;
    const facts = {
      ended_before: choice.endedBefore.toISOString(),
      ...{ export: file, checkpoint: { size, root_hash }, transfers },
    };
    await appendRecords(deps.store, await lastRecord(deps.sql), facts, cause);
    for (const transfer of transfers) count(done, transfer);
    done.files.push({ ...file, transfers: transfers.length });
    // It also carries out what an earlier call left.
    completed = await finish(deps, cause, WAIT_MS, stop);
    stop.throwIfAborted();
  }
  return { ...done, completed };
}

function count(done: RetentionResult, { events }: RemovedTransfer): void {
  done.transfers += 1;
  done.events += events.length;
}

/** Yields the lines of a file, as `audit export` prints them, and collects its transfers. */
async function* exported(
  first: Chosen,
  more: AsyncGenerator<Chosen>,
  transfers: RemovedTransfer[],
  { inFile, sha256, stop }: { inFile: number; sha256: Hash; stop: AbortSignal },
): AsyncGenerator<string> {
  for (let chosen: Chosen | null = first; chosen !== null; ) {
    stop.throwIfAborted();
    transfers.push(chosen.transfer);
    const lines = chosen.events.map((event) => `${JSON.stringify(toAuditEvent(event))}\n`).join('');
    sha256.update(lines);
    yield lines;
    const next: IteratorResult<Chosen> | null =
      transfers.length < inFile ? await more.next() : null;
    chosen = next === null || next.done ? null : next.value;
  }
}

/** Names a file by the time before which its transfers ended. */
function fileName(endedBefore: Date): string {
  return `waybill-before-${endedBefore.toISOString().slice(0, 10)}-${newId('req').slice(4)}.ndjson`;
}
