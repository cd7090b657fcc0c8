/*
 * Moves one file from its source to its destination and verifies it. One attempt calls `moveFile`
 * once. The move survives broken connections within the attempt, and lost movers between attempts.
 *
 * Steps of a move:
 * 1. Look for a finished commit, if the resume record says that a predecessor began one.
 * 2. Open the source and the destination. Start over if they do not match the record (resume.ts).
 * 3. Pump the remaining chunks (pump.ts), and save the record every two seconds.
 * 4. Check that the source is unchanged, once all of it is read, and its expected SHA-256 if there
 *    is one. If the source is removed afterwards, check that the destination is another file. Save
 *    size and SHA-256 as `committing`, which also renews the lease.
 * 5. Commit: the file appears under its name. With `verify: read_back`, the destination is read and
 *    compared before that, or after it if the server shows nothing before.
 *
 * `MoveState` is the progress in memory. A successor gets the resume record (move-state.ts). A file
 * of one chunk saves no record before `committing`, because sending it again is as fast.
 *
 * What can go wrong:
 * - A connection breaks. The move reconnects and continues from `MoveState`. After three reconnects
 *   without a new chunk, the next break fails the attempt. The chunks get smaller before that
 *   (breaks.ts).
 * - A connection stalls. The same, but it fails the attempt if it brought no new chunk and the
 *   chunks cannot get smaller.
 * - The source differs from the record. The move starts over and removes what a predecessor wrote.
 *   If a commit of that may be on its way, the move does not go on before it is removed.
 * - The source is another version than the one that a flow has listed, maybe one that is being
 *   written. The attempt fails with `source_replaced`.
 * - The destination is the source, and the source is to be removed. The attempt fails with
 *   `destination_is_source` (assert-apart.ts).
 * - The source changes during the move. The attempt fails with `source_changed`.
 * - The destination has less than the record says. The move continues from what is really there.
 * - The part file is gone at the commit. The adapter reports a broken connection, so the move sends
 *   the file again, once in an attempt.
 * - The lease is lost. The save before the first byte, or before the commit, returns false, and the
 *   move throws LeaseLost.
 * - Another writer replaces the object after the commit, and `verify: read_back` finds that one. The
 *   attempt fails with `destination_changed`: a retry would replace a newer file.
 * - The process dies during the commit. Its successor reads the destination back
 *   (find-committed.ts) and does not copy again. If the server carries out that commit only later,
 *   the successor finds the file in its way, and reads it back then.
 *
 * It relies on adapters that acknowledge a chunk only when the server has it, and that write under
 * another name (or upload, or block ids) for each claim.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommitProof, DestinationFile, SourceFile } from '../../../adapters/files/port.ts';
import { isNetworkFailure, type TransferPhase } from '../../../domain/transfers/errors.ts';
import type { Verification } from '../../../domain/transfers/transfer.ts';
import { AttemptError, LeaseLost, onSide } from '../failure.ts';
import { assertApart } from './assert-apart.ts';
import { createBreaks, type Ended } from './breaks.ts';
import { findCommitted } from './find-committed.ts';
import { assertListed } from './listed-version.ts';
import {
  type Committing,
  chunkCount,
  deliveredBytes,
  encodeSums,
  type Move,
  type Moved,
  type MovedFrom,
  type MoveState,
} from './move-state.ts';
import { mtimeOutcome, timeToPreserve } from './mtime.ts';
import { pump } from './pump.ts';
import { comparePublished, compareWritten } from './read-back.ts';
import { openDestination, type Progress, resumeFrom, startOverIfChanged } from './resume.ts';

const SAVE_EVERY_MS = 2_000;
const AT_DESTINATION: TransferPhase[] = ['destination_open', 'write', 'verify', 'commit'];

/**
 * Moves one file, starting where the record of a predecessor ends, and verifies it. Replaces broken
 * connections, and reads nothing twice for that. Throws AttemptError or LeaseLost.
 */
export async function moveFile(move: Move): Promise<MovedFrom> {
  const progress: Progress = {
    state: null,
    destination: null,
    committing: null,
    saves: move.record?.saves ?? 0,
    openings: 0,
    startedOver: false,
    smallerChunks: null,
  };
  if (move.record) resumeFrom(progress, move.record, move);
  try {
    const moved = await moveOverBreaks(move, progress);
    return { ...moved, sourceVersion: progress.state?.source.version ?? null };
  } finally {
    progress.state?.hasher.close();
  }
}

async function moveOverBreaks(move: Move, progress: Progress): Promise<Moved> {
  const breaks = createBreaks(progress, move.meter);
  for (;;) {
    try {
      return await connectAndMove(move, progress);
    } catch (error) {
      move.signal.throwIfAborted();
      if (isDestinationLost(error)) await move.destinationLost();
      const how = howConnectionEnded(error, progress);
      const pauseMs = how === null ? null : breaks.pauseMs(how);
      if (pauseMs === null) throw breaks.explain(error);
      await sleep(pauseMs, undefined, { signal: move.signal });
    }
  }
}

/** Returns whether a connection broke after the first request for the file at the destination. */
function isDestinationLost(error: unknown): boolean {
  if (!(error instanceof AttemptError)) return false;
  const { code, phase } = error.failure;
  return isNetworkFailure(code) && AT_DESTINATION.includes(phase);
}

/**
 * Returns how a connection ended after both sides were open, or `broke` if the part was gone. Null
 * for other errors.
 */
function howConnectionEnded(error: unknown, { state, startedOver }: Progress): Ended | null {
  if (!(error instanceof AttemptError)) return null;
  const { code, phase } = error.failure;
  if (code !== 'connection_failed' && code !== 'stalled') return null;
  // A server that discards whole files, as over a quota, must not get one again and again.
  if (startedOver && code !== 'stalled' && /verify|commit/.test(phase)) return null;
  // A small file is written when it is opened, before there is a state.
  if (phase !== 'write' && (state === null || /connect|sign_in/.test(phase))) return null;
  return code === 'stalled' ? 'stalled' : 'broke';
}

async function connectAndMove(move: Move, progress: Progress): Promise<Moved> {
  const { committing } = progress;
  const committed = committing && (await findCommitted(move, committing));
  if (committed) return committed;
  try {
    return await openAndMove(move, progress);
  } catch (error) {
    // A server may carry out an earlier commit after the look for it.
    const exists = error instanceof AttemptError && error.failure.code === 'destination_exists';
    const late = committing && exists ? await findCommitted(move, committing) : null;
    if (late) return late;
    throw error;
  }
}

async function openAndMove(move: Move, progress: Progress): Promise<Moved> {
  const source = await onSide('source', () =>
    move.source.endpoint.openSource(move.source.path, move.signal),
  );
  try {
    assertListed(move, source);
    await move.opened(source.identity.size);
    await startOverIfChanged(move, progress, source);
    const destination = await openDestination(move, progress, source);
    try {
      return await moveOpened(move, progress, source, destination);
    } finally {
      await destination.close();
    }
  } finally {
    await source.close();
  }
}

async function moveOpened(
  move: Move,
  progress: Progress,
  source: SourceFile,
  destination: DestinationFile,
): Promise<Moved> {
  const state = progress.state as MoveState;
  const { size } = state.source;
  const saver = createSaver(move, progress, destination);
  // Sending a file of one chunk again is as fast as resuming it.
  const resumable = chunkCount(state) > 1;
  // Sends nothing before the record names what was opened: the clean-up must find it.
  if (resumable && !(await saver.saveNow()))
    throw new LeaseLost('The lease was lost before the first byte');
  // The record of a predecessor must not outlive what this attempt has found: a source that
  // differs from it would fail every retry.
  const recorded = resumable || move.record !== null;
  const keepProgress = async () => {
    if (recorded) await saver.saveNow().catch(() => undefined);
  };
  let checking: Promise<void> | null = null;
  const check = () => {
    checking ??= checkUnchanged(source, state);
    return checking;
  };
  await pump({
    state,
    source,
    destination,
    buffers: move.buffers,
    signal: move.signal,
    // One round trip less after the last write.
    onRead: () => void check().catch(() => undefined),
    onDelivered() {
      move.meter.delivered(deliveredBytes(state));
      saver.saveSoon();
    },
    onBroken: keepProgress,
  });
  await check().catch(async (error) => {
    // The next connection need not read again what came after the last save.
    await keepProgress();
    throw error;
  });
  move.signal.throwIfAborted();
  await assertApart(move, destination);
  const modifiedAt = timeToPreserve(move, source);
  progress.committing ??= {
    size,
    sha256: requireExpected(move, await state.hasher.digest()),
    ...(modifiedAt !== undefined && { modifiedAt }),
  };
  const whole = progress.committing;
  const readBack = move.options.verify === 'read_back';
  const compared = readBack && (await compareWritten(move, destination, whole));
  let proof: CommitProof | null = null;
  while (proof === null) {
    // The save renews the lease: no other mover can have taken over when the commit begins.
    if (!(await saver.saveNow())) throw new LeaseLost('The lease was lost before the commit');
    proof = await commit(destination, whole);
  }
  if (readBack && !compared) await comparePublished(move, whole, proof.version);
  move.meter.complete();
  const verification = verificationOf(proof, readBack);
  const mtime = mtimeOutcome(whole.modifiedAt, proof.timeRefused ?? null);
  // A connection that broke may have begun a part of its own.
  const leftovers = proof.leftovers || progress.openings > 1;
  return { bytes: size, sha256: whole.sha256, verification, ...mtime, leftovers };
}

/** Returns the SHA-256 of the source. Throws if the client expects another one. */
function requireExpected({ options: { expected_sha256 } }: Move, sha256: string): string {
  if (expected_sha256 === undefined || expected_sha256 === sha256) return sha256;
  const message = `The source has the SHA-256 ${sha256}, expected is ${expected_sha256}`;
  throw new AttemptError({ code: 'checksum_mismatch', message, phase: 'verify' });
}

/** Returns null if the commit must begin once more: see `commit` of the port. */
async function commit(
  destination: DestinationFile,
  whole: Committing,
): Promise<CommitProof | null> {
  const proof = await onSide('destination', () => destination.commit(whole));
  if (proof !== null && proof.size !== whole.size) {
    const message = `The mover wrote ${whole.size} bytes, but the destination has ${proof.size}`;
    throw new AttemptError({ code: 'size_mismatch', message, phase: 'verify' });
  }
  return proof;
}

function verificationOf(
  { destinationChecksum, atomicReplace }: CommitProof,
  readBack: boolean,
): Verification {
  return {
    size: true,
    source_unchanged: true,
    destination_checksum: destinationChecksum,
    read_back: readBack,
    atomic_replace: atomicReplace,
  };
}

async function checkUnchanged(source: SourceFile, { source: before }: MoveState): Promise<void> {
  if (source.readAtOnce) return;
  const now = await onSide('source', () => source.stat());
  if (now.size === before.size && now.version === before.version) return;
  const message =
    `The source changed during the read: ${before.size} bytes of version ${before.version} ` +
    `at the start, ${now.size} bytes of version ${now.version} at the end`;
  throw new AttemptError({ code: 'source_changed', message, phase: 'verify' });
}

/** Creates a saver that saves the record every two seconds while chunks arrive, one at a time. */
function createSaver(move: Move, progress: Progress, destination: DestinationFile) {
  let savedAt = 0;
  let saving: Promise<unknown> | null = null;

  async function saveNow(): Promise<boolean> {
    await saving;
    const state = progress.state as MoveState;
    const { source, chunkSize, sums, delivered } = state;
    const encoded = encodeSums(sums.slice(0, delivered));
    progress.destination = await destination.resumePoint(deliveredBytes(state));
    const { destination: resumePoint, committing } = progress;
    savedAt = performance.now();
    const saves = ++progress.saves;
    return move.save({
      source,
      chunkSize,
      sums: encoded,
      destination: resumePoint,
      committing,
      saves,
    });
  }

  return {
    saveNow,
    saveSoon() {
      if (saving || performance.now() - savedAt < SAVE_EVERY_MS) return;
      // The move continues after a failed save: the record before it is still valid.
      saving = saveNow()
        .catch(() => undefined)
        .then(() => {
          saving = null;
        });
    },
  };
}
