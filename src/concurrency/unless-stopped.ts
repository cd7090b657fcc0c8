/**
 * Resolves as `promise` does, or rejects with the signal's reason `graceMs` milliseconds after that
 * aborts. The work itself continues. A connection that fell silent may take 15 minutes or forever.
 */
export async function unlessStopped<T>(
  promise: Promise<T>,
  signal: AbortSignal,
  graceMs: number,
): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const stop = () => {
    timer = setTimeout(() => reject(signal.reason), graceMs);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}
