/**
 * Resolves as `promise` does, or rejects with `TimeoutError` after `ms` milliseconds, or with the
 * reason of the signal when that aborts. The work itself continues. Needed wherever a client has no
 * deadline of its own when its server falls silent. `ms` is negative if a deadline has passed.
 */
export async function withTimeout<T>(
  ms: number,
  promise: PromiseLike<T>,
  TimeoutError: new (message: string) => Error,
  signal?: AbortSignal,
): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>();
  const late = () => reject(new TimeoutError(`no answer within ${Math.round(ms)} ms`));
  // Node warns of a negative time on stderr.
  const timer = setTimeout(late, Math.max(0, ms));
  const abort = () => reject(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}
