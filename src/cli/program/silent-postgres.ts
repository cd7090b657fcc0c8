/*
 * Ends a command when Postgres falls silent: a frozen server, or a network that drops packets,
 * closes no connection. A statement alone cannot tell, because some take minutes.
 */
import { connect } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import { withTimeout } from '../../concurrency/with-timeout.ts';

/** Postgres did not answer at all. */
export class PostgresSilent extends Error {
  override readonly name = 'PostgresSilent';
}

/**
 * Runs work that calls `watch` with the URL of Postgres before its first statement. Rejects with
 * `PostgresSilent` when Postgres answers nothing for `withinMs` milliseconds. The work itself
 * continues.
 */
export async function unlessSilent<T>(
  withinMs: number,
  work: (watch: (url: string) => void) => Promise<T>,
): Promise<T> {
  const { promise: silent, reject } = Promise.withResolvers<never>();
  const ended = new AbortController();
  try {
    return await Promise.race([
      work((url) => void probe(url, withinMs, ended.signal).catch(reject)),
      silent,
    ]);
  } finally {
    ended.abort();
  }
}

/** Asks Postgres now and then, until the signal aborts. */
async function probe(url: string, withinMs: number, signal: AbortSignal): Promise<void> {
  const sql = connect(url, { max: 1 });
  try {
    for (let heardAt = performance.now(); !signal.aborted; ) {
      await pause(withinMs / 3, signal);
      if (signal.aborted) return;
      const leftMs = heardAt + withinMs - performance.now();
      const error = await withTimeout(leftMs, sql`select 1`, PostgresSilent, signal).then(
        () => null,
        (reason) => reason,
      );
      if (signal.aborted) return;
      if (error instanceof PostgresSilent) throw error;
      // Any other error is an answer, which the work gets too.
      if (error?.code !== 'CONNECT_TIMEOUT') heardAt = performance.now();
    }
  } finally {
    await sql.end({ timeout: 0 });
  }
}
