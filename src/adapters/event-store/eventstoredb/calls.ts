import pRetry from 'p-retry';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import { giveUp, isTransient } from './errors.ts';

/** Time limits in milliseconds: for one try, and for a call with all its tries. */
export interface Timeouts {
  attempt: number;
  total: number;
}

/** The time that a call has left. */
export interface CallLimits {
  /** Aborts when the caller has its answer. A call must send nothing after that. */
  signal: AbortSignal;
  /**
   * Returns the milliseconds for a try that starts now. Throws EventStoreUnavailable if none are
   * left.
   */
  attemptMs(): number;
}

/** The calls of one store. */
export interface Calls {
  /** Tries until one succeeds or fails permanently, or the time is over. Then it sends nothing. */
  persist<T>(
    what: string,
    attempt: (limits: CallLimits) => Promise<T>,
    withinMs?: number,
  ): Promise<T>;
  /** Aborts with `close`. */
  closing: AbortSignal;
  /** Ends all calls. Later ones fail at once. */
  close(): void;
}

export function createCalls(timeouts: Timeouts): Calls {
  const closing = new AbortController();
  const open = new Set<AbortController>();

  async function persist<T>(
    what: string,
    attempt: (limits: CallLimits) => Promise<T>,
    withinMs = timeouts.total,
  ): Promise<T> {
    if (closing.signal.aborted) return giveUp(closing.signal.reason, what);
    const call = new AbortController();
    let lastFailure: unknown = null;
    const totalMs = Math.min(withinMs, timeouts.total);
    const end = performance.now() + totalMs;
    const limits: CallLimits = {
      signal: call.signal,
      attemptMs() {
        const left = Math.min(timeouts.attempt, Math.floor(end - performance.now()));
        if (left <= 0) throw new EventStoreUnavailable(`no answer within ${totalMs} ms`);
        return left;
      },
    };
    const tries = pRetry(() => attempt(limits), {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 50,
      maxTimeout: 1_000,
      randomize: true,
      maxRetryTime: totalMs,
      shouldRetry({ error }) {
        lastFailure = error;
        return isTransient(error);
      },
      signal: call.signal,
    });
    open.add(call);
    try {
      return await withTimeout(totalMs, tries, EventStoreUnavailable);
    } catch (error) {
      call.abort(new EventStoreUnavailable('the call was aborted'));
      // The reason of the last failure says more than that the time is over.
      const timedOut = error instanceof EventStoreUnavailable && !closing.signal.aborted;
      return giveUp(timedOut ? (lastFailure ?? error) : error, what);
    } finally {
      open.delete(call);
    }
  }

  return {
    persist,
    closing: closing.signal,
    close() {
      const reason = new EventStoreUnavailable('the store was closed');
      closing.abort(reason);
      for (const call of open) call.abort(reason);
    },
  };
}
