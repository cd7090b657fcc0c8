import { abortError } from '../abort.ts';
import { FileError, type FileStep } from '../port.ts';

/** How long the requests of an open file may last: until its caller's signal is aborted, or the file is closed. */
export interface Lifetime {
  /** Aborted at either. */
  readonly ended: AbortSignal;
  /** Does what `close` waits for. All errors become FileErrors of the step. */
  run<Result>(step: FileStep, work: () => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

/** `explain` makes a FileError of whatever goes wrong while the file lives. */
export function createLifetime(name: string, signal: AbortSignal, explain: (error: unknown, step: FileStep) => FileError): Lifetime {
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);
  const running = new Set<Promise<unknown>>();

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed.signal.aborted) return new FileError('connection_failed', step, `${name} was closed`);
    return explain(error, step);
  }

  return {
    ended,
    run(step, work) {
      const result = work()
        .catch((error) => Promise.reject(fail(error, step)))
        .finally(() => running.delete(result));
      running.add(result);
      return result;
    },
    async close() {
      closed.abort();
      await Promise.allSettled(running);
    },
  };
}
