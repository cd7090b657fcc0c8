import { abortError } from '../abort.ts';
import { FileError, type FileStep } from '../port.ts';

/**
 * The time in which requests of an open file may run: until the caller's signal aborts or the file
 * is closed.
 */
export interface Lifetime {
  /** Aborts at either. */
  readonly ended: AbortSignal;
  /** Runs work that `close` waits for. All errors become FileErrors of the step. */
  run<Result>(step: FileStep, work: () => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

const CLOSED = new Error('The file was closed');

/** `explain` turns an error into a FileError while the file is open. */
export function createLifetime(
  name: string,
  signal: AbortSignal,
  explain: (error: unknown, step: FileStep) => FileError,
): Lifetime {
  // `AbortSignal.any`, and an abort without a reason, take longer than a small request.
  const ended = new AbortController();
  const end = () => ended.abort(signal.reason);
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
  let closed = false;
  const running = new Set<Promise<unknown>>();

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed) return new FileError('connection_failed', step, `${name} was closed`);
    return explain(error, step);
  }

  return {
    ended: ended.signal,
    run(step, work) {
      const result = work()
        .catch((error) => Promise.reject(fail(error, step)))
        .finally(() => running.delete(result));
      running.add(result);
      return result;
    },
    async close() {
      closed = true;
      signal.removeEventListener('abort', end);
      ended.abort(CLOSED);
      await Promise.allSettled(running);
    },
  };
}
