import { createHash, type Hash } from 'node:crypto';

/** The SHA-256 of the chunks of one file so far. */
export interface RunningHash {
  /**
   * Adds the next chunk. Returns the sum after it: the first four bytes of the SHA-256 of all
   * chunks so far.
   */
  update(chunk: Uint8Array): number;
  /**
   * Forgets all but the first `bytes` bytes, the end of a chunk. Returns how many it still has: none
   * if it no longer knows the SHA-256 at that point.
   */
  rewind(bytes: number): number;
  /** Returns the SHA-256 of all chunks in lowercase hex. */
  digest(): string;
}

/** A broken connection loses the chunks in flight, which are fewer, also if they are small. */
const KEPT_STATES = 256;

export function createRunningHash(): RunningHash {
  let hash = createHash('sha256');
  let bytes = 0;
  /** The last states, by number of bytes, oldest first. */
  const states = new Map<number, Hash>();

  return {
    update(chunk) {
      states.set(bytes, hash.copy());
      const [oldest] = states.keys();
      if (states.size > KEPT_STATES) states.delete(oldest as number);
      hash.update(chunk);
      bytes += chunk.length;
      return hash.copy().digest().readUInt32BE(0);
    },
    rewind(to) {
      if (to === bytes) return bytes;
      const state = states.get(to);
      for (const later of states.keys()) if (later > to) states.delete(later);
      hash = state?.copy() ?? createHash('sha256');
      bytes = state ? to : 0;
      return bytes;
    },
    digest: () => hash.copy().digest('hex'),
  };
}
