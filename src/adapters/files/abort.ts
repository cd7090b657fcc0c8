import { FileError, type FileStep } from './port.ts';

/** What a wait ends with when its signal is aborted: the reason where that is a FileError. */
export function abortError(signal: AbortSignal, step: FileStep): FileError {
  return signal.reason instanceof FileError ? signal.reason : new FileError('connection_failed', step, 'Aborted', { cause: signal.reason });
}

/** The promise's outcome, or an `abortError` as soon as the signal is aborted. */
export function abortable<Result>(promise: Promise<Result>, signal: AbortSignal, step: FileStep): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(abortError(signal, step));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort));
}
