import { abortable } from '../abort.ts';
import { FileError } from '../port.ts';
import { ENOUGH_MS } from '../refused-connection.ts';

/** Permits for connections. Each one must be released, or withheld. */
export interface Permits {
  /** How many are withheld now. */
  readonly withheld: number;
  /** Waits for a permit. Throws FileError `timeout` at `until`, in the time of `performance`. */
  acquire(signal: AbortSignal, until: number): Promise<void>;
  release(): void;
  /** Ends a permit for a while, because the server has refused its connection. */
  withhold(): void;
  /** Lets all that are withheld be acquired again. */
  giveOutAll(): void;
}

const ACCEPTS_NO_MORE = ', and the server accepts no more: lower max_connections';

/** Creates `max` permits. The error of a caller that waited too long names `queueMs`. */
export function createPermits(max: number, queueMs: number): Permits {
  const waiting = new Set<() => void>();
  /** The timers of permits that are withheld. */
  const withheld = new Set<NodeJS.Timeout>();
  let free = max;

  function allInUse(): FileError {
    const message =
      `All ${max - withheld.size} connections of the endpoint have been in use for ` +
      `${queueMs / 1000} s${withheld.size > 0 ? ACCEPTS_NO_MORE : ''}`;
    return new FileError('timeout', 'open', message, { busy: true });
  }

  function release(): void {
    const [next] = waiting;
    if (!next) {
      free++;
      return;
    }
    waiting.delete(next);
    next();
  }

  function giveOut(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    if (withheld.delete(timer)) release();
  }

  return {
    get withheld() {
      return withheld.size;
    },
    async acquire(signal, until) {
      if (free > 0) {
        free--;
        return;
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const timer = setTimeout(() => reject(allInUse()), Math.max(0, until - performance.now()));
      waiting.add(resolve);
      try {
        await abortable(promise, signal, 'connect');
      } catch (error) {
        // The permit was granted in the same moment: pass it on.
        if (!waiting.has(resolve)) release();
        throw error;
      } finally {
        clearTimeout(timer);
        waiting.delete(resolve);
      }
    },
    release,
    withhold() {
      const timer = setTimeout(() => giveOut(timer), ENOUGH_MS).unref();
      withheld.add(timer);
    },
    giveOutAll() {
      for (const timer of withheld) giveOut(timer);
    },
  };
}
