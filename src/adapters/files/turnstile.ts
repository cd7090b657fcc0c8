/** Lets so many in at once, in the order in which they came. */
export interface Turnstile {
  /** Resolves, to what leaves again, when there is room. Throws the signal's reason when it aborts before. */
  enter(signal: AbortSignal | undefined): Promise<() => void>;
}

export function createTurnstile(width: number): Turnstile {
  const waiting = new Set<() => void>();
  let free = width;

  function admit(): () => void {
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      const [next] = waiting;
      if (!next) return void free++;
      waiting.delete(next);
      next();
    };
  }

  return {
    enter(signal) {
      if (free > 0) {
        free--;
        return Promise.resolve(admit());
      }
      return new Promise((resolve, reject) => {
        const leave = () => {
          waiting.delete(next);
          reject(signal?.reason);
        };
        const next = () => {
          signal?.removeEventListener('abort', leave);
          resolve(admit());
        };
        waiting.add(next);
        signal?.addEventListener('abort', leave, { once: true });
      });
    },
  };
}
