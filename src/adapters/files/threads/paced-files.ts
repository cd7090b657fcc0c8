/*
 * Files of an endpoint whose bandwidth may be limited. Without a limit, they read and write as they
 * are asked to. With one, they read and write a little at a time, when it is their turn.
 */
import type { PacedShare, Pacer } from '../../../concurrency/pacer.ts';
import { abortError } from '../abort.ts';
import { type DestinationFile, FileError, type Pace, type SourceFile } from '../port.ts';

/** The share of one open file in the bandwidth of its endpoint. */
interface FilePace extends Pace {
  /** Ends what waits for its turn. */
  end(): void;
  /** Creates the share of a file that is opened after this one, with the same signal. */
  next(): FilePace;
}

export type PacedSource = SourceFile & { pace: Pace };
export type PacedDestination = Omit<DestinationFile, 'openWritten'> & {
  openWritten(): Promise<PacedSource | null>;
};

/** Creates the share of a file that is open until `end` is called or the signal aborts. */
export function paceOf(pacer: Pacer, signal: AbortSignal): FilePace {
  let share: PacedShare | null = null;
  const abort = () => share?.end(abortError(signal, 'transfer'));

  function begin(): PacedShare {
    share = pacer.share();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    return share;
  }

  return {
    get limited() {
      return pacer.limited;
    },
    async take(wanted) {
      return pacer.limited ? (share ?? begin()).take(wanted) : wanted;
    },
    request: (bytes) => (share ?? begin()).request(bytes),
    end() {
      signal.removeEventListener('abort', abort);
      share?.end(new FileError('connection_failed', 'transfer', 'The file was closed'));
    },
    next: () => paceOf(pacer, signal),
  };
}

/** Reads no faster than the pace. `close` ends it. */
export function pacedSource(file: SourceFile, pace: FilePace): PacedSource {
  return {
    ...file,
    pace,
    read: (offset, target) =>
      pace.limited
        ? inTurns(pace, target, (start, bytes) => file.read(offset + start, bytes))
        : file.read(offset, target),
    close() {
      pace.end();
      return file.close();
    },
  };
}

/** Writes no faster than the pace. `close` ends it. */
export function pacedDestination(file: DestinationFile, pace: FilePace): PacedDestination {
  /** Resolves when the last write that had to wait for its turns has ended. */
  let last: Promise<unknown> = Promise.resolve();

  async function writeInTurns(offset: number, data: Uint8Array): Promise<void> {
    const writing = (file.inOrder ? last : Promise.resolve()).then(() =>
      inTurns(pace, data, (start, bytes) => file.write(offset + start, bytes)),
    );
    last = writing.catch(() => undefined);
    await writing;
  }

  return {
    ...file,
    write(offset, data) {
      if (pace.limited && !file.pacesRequests) return writeInTurns(offset, data);
      // A limit that has ended may leave writes that are not done.
      if (file.inOrder) return last.then(() => file.write(offset, data));
      return file.write(offset, data);
    },
    async openWritten() {
      const written = await file.openWritten();
      return written && pacedSource(written, pace.next());
    },
    close() {
      pace.end();
      return file.close();
    },
  };
}

async function inTurns(
  pace: Pace,
  bytes: Uint8Array,
  move: (start: number, bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < bytes.length; ) {
    const end = start + (await pace.take(bytes.length - start));
    await move(start, bytes.subarray(start, end));
    start = end;
  }
}
