import { EventStoreUnavailable } from './port.ts';

/** What the promise gives, or EventStoreUnavailable after `ms`: an engine's client may keep no deadline when its server falls silent. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new EventStoreUnavailable(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
