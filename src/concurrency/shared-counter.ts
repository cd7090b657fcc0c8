/** A count in shared memory: one thread adds to it and another reads it, without a message. */
export type SharedCounter = BigInt64Array<SharedArrayBuffer>;

export function createSharedCounter(): SharedCounter {
  return new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
}

/** Adds to a counter; does nothing without one. */
export function addTo(counter: SharedCounter | undefined, count: number): void {
  if (counter) Atomics.add(counter, 0, BigInt(count));
}

export function countOf(counter: SharedCounter): number {
  return Number(Atomics.load(counter, 0));
}
