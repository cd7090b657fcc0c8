import { toRfc3339, type UnixTime } from '../../../adapters/files/modification-time.ts';
import type { SourceFile } from '../../../adapters/files/port.ts';
import type { MtimeOutcome } from '../../../domain/transfers/transfer.ts';
import type { Move } from './move-state.ts';

/** Returns the time to preserve: undefined if that is not asked for, null if there is none. */
export function timeToPreserve(move: Move, source: SourceFile): UnixTime | null | undefined {
  return move.options.preserve_mtime ? source.modifiedAt : undefined;
}

/** Returns what the event says of the modification time. Nothing unless it was asked for. */
export function mtimeOutcome(
  time: UnixTime | null | undefined,
  refused: string | null,
): { mtime?: MtimeOutcome } {
  if (time === undefined) return {};
  if (time === null)
    return {
      mtime: { preserved: false, at: null, reason: 'The source has no modification time' },
    };
  const at = toRfc3339(time);
  if (refused !== null) return { mtime: { preserved: false, at, reason: refused } };
  return { mtime: { preserved: true, at } };
}
