import pRetry from 'p-retry';
import type { CommitProof, DestinationFile, ResumePoint, SourceFile } from '../../adapters/files/port.ts';
import type { AttemptFigures, Verification } from '../../domain/transfer.ts';
import { AttemptError, LeaseLost, onSide } from './failure.ts';
import { findCommitted } from './find-committed.ts';
import {
  chunkCount,
  decodeCrcs,
  deliveredBytes,
  encodeCrcs,
  type Move,
  type Moved,
  type MoveState,
  type ResumeRecord,
} from './move-state.ts';
import { pump } from './pump.ts';

/** A connection that breaks in the middle is made anew this often, with no chunk delivered between, before the attempt fails. */
const RECONNECTS = 3;
const RECONNECT_MS = { minTimeout: 500, maxTimeout: 5_000 };
const SAVE_EVERY_MS = 2_000;

/**
 * Moves one file, verified, from where the record says that a predecessor was. A connection that breaks
 * is made anew a few times, and nothing is read twice for it. Throws AttemptError, or LeaseLost.
 */
export async function moveFile(move: Move): Promise<Moved> {
  const progress: Progress = { state: null, destination: null, committing: null };
  if (move.record) resumeFrom(progress, move.record, move);
  const speed = createSpeedometer(move.figures);
  try {
    const onBrokenLine = createPatience(RECONNECTS);
    return await pRetry(() => connectAndMove(move, progress, speed), {
      retries: Number.POSITIVE_INFINITY,
      ...RECONNECT_MS,
      signal: move.signal,
      shouldRetry: ({ error }) => progress.state !== null && isBrokenConnection(error) && onBrokenLine(progress.state.delivered),
    });
  } finally {
    progress.state?.hasher.close();
  }
}

/** What lasts from one connection to the next. */
interface Progress {
  state: MoveState | null;
  destination: ResumePoint | null;
  committing: { size: number; sha256: string } | null;
}

function resumeFrom(progress: Progress, record: ResumeRecord, move: Move): void {
  const { source, chunkSize, destination, committing } = record;
  const crcs = decodeCrcs(record.crcs);
  progress.state = { source, chunkSize, crcs, delivered: crcs.length, hashed: 0, hasher: move.createHasher(source.size) };
  progress.destination = destination;
  progress.committing = committing;
}

/** Bears so many failures in a row between which nothing more was delivered. */
function createPatience(failures: number): (delivered: number) => boolean {
  let before = -1;
  let inARow = 0;
  return (delivered) => {
    inARow = delivered > before ? 1 : inARow + 1;
    before = Math.max(before, delivered);
    return inARow <= failures;
  };
}

function isBrokenConnection(error: unknown): boolean {
  return error instanceof AttemptError && error.failure.code === 'connection_failed' && !/connect|sign_in/.test(error.failure.phase);
}

async function connectAndMove(move: Move, progress: Progress, speed: Speedometer): Promise<Moved> {
  const { committing } = progress;
  const done = committing && (await findCommitted(move, committing));
  if (done) return done;
  const source = await onSide('source', () => move.source.endpoint.openSource(move.source.path, move.signal));
  try {
    await startAnewIfChanged(move, progress, source);
    const destination = await openDestination(move, progress, source);
    try {
      return await moveOpened(move, progress, source, destination, speed);
    } finally {
      await destination.close();
    }
  } finally {
    await source.close();
  }
}

/** What a predecessor had is of use only while the source is the same; else it is removed. */
async function startAnewIfChanged(move: Move, progress: Progress, source: SourceFile): Promise<void> {
  const { state } = progress;
  const { size, version } = source.identity;
  if (state && state.source.size === size && state.source.version === version) return;
  state?.hasher.close();
  if (progress.destination) {
    const { endpoint, path } = move.destination;
    const leftovers = { transferId: move.transferId, resume: progress.destination, signal: move.signal };
    // What can't be removed now is removed when the transfer has ended.
    await endpoint.removeLeftovers(path, leftovers).catch(() => undefined);
  }
  Object.assign(progress, { state: null, destination: null, committing: null });
}

async function openDestination(move: Move, progress: Progress, source: SourceFile): Promise<DestinationFile> {
  const { transferId, claimId, overwrite, signal } = move;
  const { size } = source.identity;
  const resume = progress.destination;
  const destination = await onSide('destination', () =>
    move.destination.endpoint.openDestination(move.destination.path, { transferId, claimId, size, overwrite, resume, signal }),
  );
  if (!goesOn(move, progress, destination)) {
    progress.state?.hasher.close();
    const { chunkSize } = destination;
    progress.state = { source: source.identity, chunkSize, crcs: [], delivered: 0, hashed: 0, hasher: move.createHasher(size) };
    progress.committing = null;
  }
  return destination;
}

/** Fits the state to what the destination really has; false where it is of no use any more. */
function goesOn(move: Move, progress: Progress, { chunkSize, resumedFrom }: DestinationFile): boolean {
  const { state } = progress;
  if (!state || state.chunkSize !== chunkSize) return false;
  const chunks = chunkCount(state);
  const there = resumedFrom >= state.source.size ? chunks : Math.floor(resumedFrom / chunkSize);
  state.delivered = Math.min(state.delivered, there);
  if (!progress.committing) return true;
  if (state.delivered === chunks) {
    // All was read and hashed before; only the commit is left.
    state.hashed = chunks;
    return true;
  }
  // The destination lost the end of what was sent. The hash ended with its digest, so all is read for it once more.
  progress.committing = null;
  state.hasher.close();
  state.hasher = move.createHasher(state.source.size);
  state.hashed = 0;
  return true;
}

async function moveOpened(
  move: Move,
  progress: Progress,
  source: SourceFile,
  destination: DestinationFile,
  speed: Speedometer,
): Promise<Moved> {
  const state = progress.state as MoveState;
  const { size } = state.source;
  move.figures.size_bytes = size;
  move.figures.transferred_bytes = deliveredBytes(state);
  const saver = createSaver(move, progress, destination);
  // A file of one chunk is sent again as fast as it is resumed.
  const resumable = chunkCount(state) > 1;
  if (resumable) await saver.saveNow();
  await pump({
    state,
    source,
    destination,
    slots: move.slots,
    signal: move.signal,
    onDelivered(bytes) {
      move.figures.transferred_bytes = deliveredBytes(state);
      speed.count(bytes);
      move.moved(bytes);
      saver.saveSoon();
    },
    async onBroken() {
      if (resumable) await saver.saveNow().catch(() => undefined);
    },
  });
  await checkUnchanged(source, state);
  move.signal.throwIfAborted();
  progress.committing ??= { size, sha256: await state.hasher.digest() };
  // The lease is renewed with it: nobody else can have taken over when the commit begins.
  if (!(await saver.saveNow())) throw new LeaseLost('The lease ran out before the commit');
  return commit(destination, progress.committing);
}

async function commit(destination: DestinationFile, whole: { size: number; sha256: string }): Promise<Moved> {
  const proof = await onSide('destination', () => destination.commit(whole));
  if (proof.size !== whole.size) {
    const message = `${whole.size} bytes were sent, and the destination holds ${proof.size}`;
    throw new AttemptError({ code: 'size_mismatch', message, phase: 'verify' });
  }
  return { bytes: whole.size, sha256: whole.sha256, verification: verificationOf(proof) };
}

function verificationOf({ destinationChecksum, atomicReplace }: CommitProof): Verification {
  return { size: true, source_unchanged: true, destination_checksum: destinationChecksum, read_back: false, atomic_replace: atomicReplace };
}

async function checkUnchanged(source: SourceFile, { source: before }: MoveState): Promise<void> {
  if (source.readAtOnce) return;
  const now = await onSide('source', () => source.stat());
  if (now.size === before.size && now.version === before.version) return;
  const message = `The source changed while it was read: ${before.size} bytes of ${before.version} at the start, ${now.size} bytes of ${now.version} at the end`;
  throw new AttemptError({ code: 'source_changed', message, phase: 'verify' });
}

/** Saves the record now and then while chunks arrive, one save at a time. */
function createSaver(move: Move, progress: Progress, destination: DestinationFile) {
  let savedAt = 0;
  let saving: Promise<unknown> | null = null;

  async function saveNow(): Promise<boolean> {
    await saving;
    const state = progress.state as MoveState;
    const { source, chunkSize, crcs, delivered } = state;
    const kept = encodeCrcs(crcs.slice(0, delivered));
    progress.destination = await destination.resumePoint(deliveredBytes(state));
    const { destination: resumePoint, committing } = progress;
    savedAt = performance.now();
    return move.save({ source, chunkSize, crcs: kept, destination: resumePoint, committing });
  }

  return {
    saveNow,
    saveSoon() {
      if (saving || performance.now() - savedAt < SAVE_EVERY_MS) return;
      // A save that fails is no reason to stop: the one before it stands.
      saving = saveNow()
        .catch(() => undefined)
        .then(() => {
          saving = null;
        });
    },
  };
}

interface Speedometer {
  count(bytes: number): void;
}

/** Bits per second since the first byte of the attempt, for what this attempt has sent. */
function createSpeedometer(figures: AttemptFigures): Speedometer {
  const startedAt = performance.now();
  let sent = 0;
  return {
    count(bytes) {
      sent += bytes;
      figures.speed_bps = Math.round((sent * 8_000) / Math.max(1, performance.now() - startedAt));
    },
  };
}
