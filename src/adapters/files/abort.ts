import { FileError, type FileStep } from './port.ts';

/** Returns the error of a wait whose signal aborted: the abort reason if that is a FileError. */
export function abortError(signal: AbortSignal, step: FileStep): FileError {
  return signal.reason instanceof FileError
    ? signal.reason
    : new FileError('connection_failed', step, 'Aborted', { cause: signal.reason });
}

/** Returns a signal that aborts with the error `timeout` after this time. */
export function timeLimit(ms: number, step: FileStep): AbortSignal {
  const limit = new AbortController();
  const error = new FileError('timeout', step, `No answer within ${ms / 1000} s`);
  setTimeout(() => limit.abort(error), ms).unref();
  return limit.signal;
}

/** Settles as the promise does, or rejects with an `abortError` as soon as the signal aborts. */
export function abortable<Result>(
  promise: Promise<Result>,
  signal: AbortSignal,
  step: FileStep,
): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(abortError(signal, step));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort));
}
