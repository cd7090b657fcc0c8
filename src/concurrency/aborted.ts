import { once } from 'node:events';

/** Resolves when the signal aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
