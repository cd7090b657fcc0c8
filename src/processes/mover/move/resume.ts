/*
 * Continues a move: from the record of a predecessor, or on a new connection after a broken one.
 */
import type { DestinationFile, ResumePoint, SourceFile } from '../../../adapters/files/port.ts';
import { createSharedCounter } from '../../../concurrency/shared-counter.ts';
import { SMALL_FILE_BYTES } from '../../../domain/small-file.ts';
import { TRANSFER_ERRORS } from '../../../domain/transfers/errors.ts';
import { AttemptError, onSide } from '../failure.ts';
import {
  type Committing,
  chunkCount,
  cutChunks,
  decodeSums,
  deliveredBytes,
  type Move,
  type MoveState,
  type ResumeRecord,
} from './move-state.ts';
import { timeToPreserve } from './mtime.ts';

/** The progress that outlives a connection. */
export interface Progress {
  state: MoveState | null;
  destination: ResumePoint | null;
  committing: Committing | null;
  saves: number;
  /** How often this attempt has tried to open the destination. */
  openings: number;
  /** True if this attempt writes from the start what a destination had lost. */
  startedOver: boolean;
  /** The size of a chunk that the line may let through. Null until connections broke within one. */
  smallerChunks: number | null;
}

/** Takes over the progress that a predecessor has saved. */
export function resumeFrom(progress: Progress, record: ResumeRecord, move: Move): void {
  const { source, chunkSize, destination, committing } = record;
  progress.destination = destination;
  progress.committing = committing;
  if (record.sums === undefined) return;
  const sums = decodeSums(record.sums);
  progress.state = {
    source,
    chunkSize,
    sums,
    delivered: sums.length,
    hashed: 0,
    hasher: move.createHasher(source.size),
  };
}

/** How long a move waits for a clean-up: a folder may be too large to list while it waits. */
const REMOVAL_LIMIT_MS = 60_000;

/** Discards the progress of a predecessor, and what it wrote, if the source has changed since. */
export async function startOverIfChanged(
  move: Move,
  progress: Progress,
  source: SourceFile,
): Promise<void> {
  const { state } = progress;
  const { size, version } = source.identity;
  if (state && state.source.size === size && state.source.version === version) return;
  state?.hasher.close();
  // A small file has no resume point. A late write of a broken connection must not get into the new
  // part, which may be the same file.
  if (state || progress.destination) {
    const { endpoint, path } = move.destination;
    const leftovers = {
      transferId: move.transferId,
      resume: progress.destination,
      signal: AbortSignal.any([move.signal, AbortSignal.timeout(REMOVAL_LIMIT_MS)]),
    };
    // If this fails, the clean-up after the end of the transfer removes them. But a commit that was
    // sent may still be carried out, and must find nothing then: so it is tried again.
    await onSide('destination', () => endpoint.removeLeftovers(path, leftovers)).catch((error) => {
      if (progress.committing && !leftovers.signal.aborted && mayPass(error)) throw error;
    });
  }
  Object.assign(progress, { state: null, destination: null, committing: null });
}

function mayPass(error: unknown): boolean {
  return error instanceof AttemptError && TRANSFER_ERRORS[error.failure.code].retryable;
}

/** Opens the destination where the progress ends, or for a new file if it cannot be resumed. */
export async function openDestination(
  move: Move,
  progress: Progress,
  source: SourceFile,
): Promise<DestinationFile> {
  const { transferId, claimId, overwrite, signal } = move;
  const { size } = source.identity;
  const resume = progress.destination;
  const opening = ++progress.openings;
  const acknowledged = size > SMALL_FILE_BYTES ? createSharedCounter() : undefined;
  const destination = await onSide('destination', () =>
    move.destination.endpoint.openDestination(move.destination.path, {
      transferId,
      claimId,
      opening,
      size,
      overwrite,
      resume,
      content: resume ? undefined : source.content,
      modifiedAt: timeToPreserve(move, source) ?? undefined,
      chunkSize: progress.smallerChunks ?? progress.state?.chunkSize,
      headers: source.headers,
      marked: move.removesSource && !move.source.endpoint.hasPart,
      acknowledged,
      signal,
    }),
  );
  if (resume && resume.bytes > 0 && destination.resumedFrom === 0) progress.startedOver = true;
  // Without a resume point nothing of an earlier connection is of use. What the destination has now
  // is the content of this source, which must be hashed too.
  if (resume === null || !resumeState(progress, destination)) {
    progress.state?.hasher.close();
    const { chunkSize, resumedFrom } = destination;
    progress.state = {
      source: source.identity,
      chunkSize,
      sums: [],
      delivered: !resume && resumedFrom >= size ? Math.ceil(size / chunkSize) : 0,
      hashed: 0,
      hasher: move.createHasher(size),
    };
    progress.committing = null;
  }
  const resumed = resume ? deliveredBytes(progress.state as MoveState) : 0;
  move.meter.start(size, resumed, acknowledged);
  return destination;
}

/** Adjusts the state to what the destination really has. Returns false if it cannot be resumed. */
function resumeState(progress: Progress, { chunkSize, resumedFrom }: DestinationFile): boolean {
  const { state } = progress;
  if (!state || state.chunkSize % chunkSize !== 0) return false;
  if (state.chunkSize !== chunkSize) cutChunks(state, chunkSize);
  const chunks = chunkCount(state);
  const present = resumedFrom >= state.source.size ? chunks : Math.floor(resumedFrom / chunkSize);
  state.delivered = Math.min(state.delivered, present);
  if (!progress.committing) return true;
  if (state.delivered === chunks) {
    // All chunks were read and hashed before. Only the commit is left.
    state.hashed = chunks;
    return true;
  }
  // The destination lost the end of the file.
  progress.committing = null;
  return true;
}
