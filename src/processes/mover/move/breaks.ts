/*
 * What a move does when its connections break. Each one that brings it further is replaced. If two
 * in a row break within the same chunk, the chunks get smaller, for a line that breaks sooner than
 * it carries a whole one. Then the destination keeps less at a time, and quick lines pay nothing.
 *
 * A connection that stalls is a broken one that costs a minute. The first one that stalls within a
 * chunk makes the chunks smaller. If they cannot get smaller, the attempt fails: its error and the
 * delays of the retries are better than further minutes of silence.
 */
import { AttemptError } from '../failure.ts';
import type { Meter } from '../meter.ts';
import { deliveredBytes } from './move-state.ts';
import type { Progress } from './resume.ts';

/** Reconnects in a row, with nothing gained in between, before the attempt fails. */
const RECONNECTS = 3;
const PAUSE_MS = 500;
/** Chunks of 8 MiB become chunks of 1 MiB and then of 128 KiB; those of FTPS are half as large. */
const CUT_INTO = 8;
const SMALLEST_CHUNK = 64 << 10;
/** The resume record has four bytes for each chunk, so the chunks of a huge file stay large. */
const MOST_CHUNKS = 1 << 17;

export type Ended = 'broke' | 'stalled';

export interface Breaks {
  /**
   * Counts a connection that broke, or stalled. Returns how long to wait before the next one; null
   * for none.
   */
  pauseMs(how: Ended): number | null;
  /** Adds why the attempt fails to its error, if it was not allowed to reconnect. */
  explain(error: unknown): unknown;
}

export function createBreaks(progress: Progress, meter: Pick<Meter, 'resumed'>): Breaks {
  const before = progress.state ? deliveredBytes(progress.state) : 0;
  const most = { delivered: before, hashed: 0, found: 0 };
  let inARow = 0;
  let givenUp = false;

  /**
   * Returns whether more is delivered than at any break before, or, after a restart, more of what
   * was delivered is hashed. FTPS counts bytes that may still be on their way. If they are lost,
   * the next connection finds how far the one before has come.
   */
  function gained(): boolean {
    const { state } = progress;
    const delivered = state ? deliveredBytes(state) : 0;
    const hashed = state ? Math.min(delivered, state.hashed * state.chunkSize) : 0;
    const found = meter.resumed();
    const wasFurther = found > most.found && found < most.delivered;
    const isMore = delivered > most.delivered || hashed > most.hashed || wasFurther;
    most.delivered = Math.max(most.delivered, delivered);
    most.hashed = Math.max(most.hashed, hashed);
    most.found = Math.max(most.found, found);
    return isMore;
  }

  return {
    pauseMs(how) {
      const isFurther = gained();
      inARow = isFurther ? 1 : inARow + 1;
      const smaller = smallerChunks(progress);
      // The destination may have kept its size.
      const isLast = smaller === null || smaller === progress.smallerChunks;
      const within = how === 'stalled' ? !isFurther : inARow > 1;
      if (within && smaller !== null) progress.smallerChunks = smaller;
      givenUp = inARow > RECONNECTS || (how === 'stalled' && within && isLast);
      return givenUp ? null : PAUSE_MS * 2 ** (inARow - 1);
    },
    explain(error) {
      if (!givenUp || inARow === 1 || !(error instanceof AttemptError) || !progress.state)
        return error;
      const { failure } = error;
      if (failure.phase !== 'read' && failure.phase !== 'write') return error;
      const { chunkSize, source } = progress.state;
      const piece = inUnits(Math.min(chunkSize, source.size));
      const message =
        `${failure.message.replace(/[\s.]+$/, '')}. Each of the last ${inARow} connections broke ` +
        `before a piece of ${piece} was through, and Waybill can send no smaller pieces there`;
      return new AttemptError({ ...failure, message }, { cause: error });
    },
  };
}

/** Returns the next smaller size of a chunk. Null if there is none. */
function smallerChunks({ state }: Progress): number | null {
  if (!state) return null;
  const smaller = state.chunkSize / CUT_INTO;
  return smaller >= SMALLEST_CHUNK && state.source.size / smaller <= MOST_CHUNKS ? smaller : null;
}

function inUnits(bytes: number): string {
  const kib = bytes / 1024;
  return kib < 1024 ? `${Math.ceil(kib)} KiB` : `${Number((kib / 1024).toFixed(1))} MiB`;
}
