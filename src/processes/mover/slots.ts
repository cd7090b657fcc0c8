/** A buffer that a chunk of a file passes through. */
export interface Slot {
  buffer: Uint8Array;
  release(): void;
}

/**
 * The memory that all moves of a process share. A file that holds no slot waits for one; more of them
 * make it faster where they are free, so that many files get one each and a lone one gets its fill.
 */
export interface SlotPool {
  /** Size of a slot; what is asked for is at most that. */
  readonly slotBytes: number;
  /** Resolves when a slot is free. Throws the signal's reason when it aborts. */
  take(bytes: number, signal: AbortSignal): Promise<Slot>;
  /** A slot if one is free and nobody waits for it. */
  tryTake(bytes: number): Slot | null;
}

/** What is no larger has memory of its own: a small file does not wait for large ones, and 16 of them take less than a slot. */
const OWN_MEMORY_BYTES = 256 * 1024;

function ownMemory(bytes: number): Slot {
  return { buffer: new Uint8Array(new SharedArrayBuffer(bytes)), release: () => undefined };
}

export function createSlotPool(count: number, slotBytes: number): SlotPool {
  const idle: Uint8Array[] = [];
  const waiting = new Set<(buffer: Uint8Array) => void>();
  let made = 0;

  function freeBuffer(): Uint8Array | null {
    const buffer = idle.pop();
    if (buffer || made === count) return buffer ?? null;
    made++;
    // Shared, so that other threads can fill it and empty it.
    return new Uint8Array(new SharedArrayBuffer(slotBytes));
  }

  function slot(whole: Uint8Array, bytes: number): Slot {
    let released = false;
    return {
      buffer: whole.subarray(0, bytes),
      release() {
        if (released) return;
        released = true;
        const [next] = waiting;
        if (!next) return void idle.push(whole);
        waiting.delete(next);
        next(whole);
      },
    };
  }

  return {
    slotBytes,
    tryTake(bytes) {
      if (bytes <= OWN_MEMORY_BYTES) return ownMemory(bytes);
      const whole = waiting.size === 0 ? freeBuffer() : null;
      return whole && slot(whole, bytes);
    },
    take(bytes, signal) {
      signal.throwIfAborted();
      if (bytes <= OWN_MEMORY_BYTES) return Promise.resolve(ownMemory(bytes));
      const whole = waiting.size === 0 ? freeBuffer() : null;
      if (whole) return Promise.resolve(slot(whole, bytes));
      return new Promise((resolve, reject) => {
        const abort = () => {
          waiting.delete(give);
          reject(signal.reason);
        };
        const give = (buffer: Uint8Array) => {
          signal.removeEventListener('abort', abort);
          resolve(slot(buffer, bytes));
        };
        waiting.add(give);
        signal.addEventListener('abort', abort, { once: true });
      });
    },
  };
}
