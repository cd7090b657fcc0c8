/** Limits how many bytes its shares move together in a second. */
export interface Pacer {
  /** False if there is no limit. Then callers need not ask. */
  readonly limited: boolean;
  /**
   * Sets the limit in bytes per second; null for none. It holds at once, also for callers that
   * wait.
   */
  setRate(bytesPerSecond: number | null): void;
  /** Adds a share. Shares whose callers wait take turns, so each moves as much as the others. */
  share(): PacedShare;
}

export interface PacedShare {
  /** Resolves with how many bytes may move now: at least 1, at most `wanted`. */
  take(wanted: number): Promise<number>;
  /**
   * Resolves when a request with so many bytes may begin. At a low limit, requests follow each
   * other: a server ends one that takes too long, or whose next bytes do not come for a minute.
   */
  request(bytes: number): Promise<PacedRequest>;
  /** Rejects all callers that wait, and those that come later. */
  end(reason: Error): void;
}

export interface PacedRequest {
  /** As `take` of the share. The first bytes may move at once. */
  take(wanted: number): Promise<number>;
  /** Lets the next request begin. May be called twice. */
  end(): void;
}

/** One turn takes the bytes of this time, so that the bytes of many turns flow evenly. */
const TURN_SECONDS = 0.25;
/** The least bytes of a turn: a request for less costs more than it moves. */
const LEAST_TURN_BYTES = 1_024;
/**
 * The bytes per second that each request gets, or all of the limit if that is less. A part of 8 MiB
 * then takes two minutes.
 */
const LEAST_REQUEST_RATE = 64 << 10;
/** What a late timer missed is made up, up to this time. What a frozen process missed is not. */
const MADE_UP_MS = 100;
/** How long the next turn waits after a change of the rate, at most. */
const MAX_OWED_MS = 1_000;

interface Waiter {
  wanted: number;
  /** True if the grant begins a request. */
  begins: boolean;
  grant(bytes: number): void;
  reject(reason: Error): void;
}

/** Creates a pacer without a limit. */
export function createPacer(): Pacer {
  /** Shares with callers that wait, in the order of their turns. */
  const turns = new Set<Waiter[]>();
  /** Requests that have begun and not ended. */
  let underWay = 0;
  let rate: number | null = null;
  let nextAt = 0;
  let timer: NodeJS.Timeout | undefined;

  /** Serves the turns that are due, and waits for the next one. */
  function serve(): void {
    clearTimeout(timer);
    timer = undefined;
    while (turns.size > 0) {
      const wait = rate === null ? 0 : nextAt - performance.now();
      if (wait > 0) {
        timer = setTimeout(serve, wait);
        return;
      }
      const { waiters, index } = nextTurn();
      turns.delete(waiters);
      const [{ wanted, begins, grant }] = waiters.splice(index, 1) as [Waiter];
      if (waiters.length > 0) turns.add(waiters);
      if (begins) underWay++;
      grant(charge(wanted));
    }
  }

  /**
   * Returns the first waiter whose turn it is. A further request begins only if each then has its
   * rate, or if nothing else waits for bytes.
   */
  function nextTurn(): { waiters: Waiter[]; index: number } {
    const mayBegin = rate === null || underWay < Math.max(1, Math.floor(rate / LEAST_REQUEST_RATE));
    for (const waiters of turns) {
      const index = waiters.findIndex(({ begins }) => mayBegin || !begins);
      if (index >= 0) return { waiters, index };
    }
    const [waiters] = turns as Iterable<Waiter[]>;
    return { waiters: waiters as Waiter[], index: 0 };
  }

  /** Returns the bytes of one turn. The next turn begins when they have had their time. */
  function charge(wanted: number): number {
    if (rate === null) return wanted;
    const bytes = Math.min(wanted, Math.max(LEAST_TURN_BYTES, Math.ceil(rate * TURN_SECONDS)));
    nextAt = Math.max(nextAt, performance.now() - MADE_UP_MS) + (bytes / rate) * 1_000;
    return bytes;
  }

  return {
    get limited() {
      return rate !== null;
    },
    setRate(bytesPerSecond) {
      if (bytesPerSecond === rate) return;
      const now = performance.now();
      const owed = rate === null ? 0 : (Math.max(0, nextAt - now) * rate) / (bytesPerSecond ?? 1);
      // A turn of the old rate may have taken what is hours of the new one.
      nextAt = now + Math.min(owed, MAX_OWED_MS);
      rate = bytesPerSecond;
      serve();
    },
    share() {
      const waiters: Waiter[] = [];
      let ended: Error | null = null;

      function wait(wanted: number, begins: boolean): Promise<number> {
        if (ended) return Promise.reject(ended);
        const { promise, resolve: grant, reject } = Promise.withResolvers<number>();
        waiters.push({ wanted, begins, grant, reject });
        turns.add(waiters);
        if (!timer) serve();
        return promise;
      }

      return {
        take: (wanted) => wait(wanted, false),
        async request(bytes) {
          let granted = await wait(bytes, true);
          let open = true;
          return {
            async take(wanted) {
              if (granted === 0) return wait(wanted, false);
              const now = Math.min(granted, wanted);
              granted -= now;
              return now;
            },
            end() {
              if (open) underWay--;
              open = false;
            },
          };
        },
        end(reason) {
          ended ??= reason;
          turns.delete(waiters);
          for (const { reject } of waiters.splice(0)) reject(ended);
        },
      };
    },
  };
}
