import type { Socket } from 'node:net';

/*
 * A server that sends a byte now and then is never silent, but a file would never arrive. It would
 * hold a place of its endpoint for ever.
 */

/** What a server must send or take in `slowMs` while a file waits for it. */
const LEAST_BYTES = 64 << 10;
/** With `LEAST_BYTES`, about 110 bytes a second. */
export const SLOW_MS = 10 * 60_000;

export interface SlowCheck {
  /** Measures from now on. */
  restart(): void;
  /** Returns true if fewer than `LEAST_BYTES` have moved in the last `slowMs`. */
  tooSlow(): boolean;
}

/** `moved` returns how many bytes the server has sent and taken so far. */
export function createSlowCheck(moved: () => number, slowMs: number): SlowCheck {
  let movedBefore = 0;
  let since = 0;

  function restart(): void {
    movedBefore = moved();
    since = performance.now();
  }

  restart();
  return {
    restart,
    tooSlow() {
      if (moved() - movedBefore >= LEAST_BYTES) restart();
      return performance.now() - since >= slowMs;
    },
  };
}

/**
 * Calls `tooSlow` once if the server at the other end of a socket is too slow. What the socket is
 * given to send counts as taken, so give it no more than a slice at a time.
 * `waits` tells whether a file waits for the server: other time does not count. Returns a function
 * that ends the watch.
 */
export function watchForSlowness(
  socket: Pick<Socket, 'bytesRead' | 'bytesWritten'>,
  slowMs: number,
  tooSlow: () => void,
  waits: () => boolean = () => true,
): () => void {
  const check = createSlowCheck(() => socket.bytesRead + socket.bytesWritten, slowMs);
  const timer = setInterval(() => {
    if (!waits()) check.restart();
    else if (check.tooSlow()) {
      clearInterval(timer);
      tooSlow();
    }
  }, slowMs / 10).unref();
  return () => clearInterval(timer);
}

/** Returns the error for a server that was silent for so long. Its code is ESTALLED. */
export function silentError(stallMs: number, more = ''): Error {
  return stalled(`the server sent nothing for ${stallMs / 1000} s${more}`);
}

/** Returns the error for a server that was too slow for so long. Its code is ESTALLED. */
export function slowError(slowMs: number): Error {
  return stalled(tooSlowText(slowMs));
}

/** Returns the error for a server that answers others, but not this one. Its code is ESTALLED. */
export function passedOverError(ms: number): Error {
  return stalled(`the server did not answer a request for ${ms / 1000} s, but answered later ones`);
}

function stalled(how: string): Error {
  return Object.assign(new Error(how), { code: 'ESTALLED' });
}

/** Says in an error that a server is too slow. */
export function tooSlowText(slowMs: number): string {
  return `less than ${LEAST_BYTES >> 10} KiB went in or out in ${slowMs / 1000} s`;
}
