import { createHash, type Hash } from 'node:crypto';

/** The SHA-256 of the chunks of one file so far. */
export interface RunningHash {
  /**
   * Adds the next chunk. Returns the sum after it: the first four bytes of the SHA-256 of all
   * chunks so far.
   */
  update(chunk: Uint8Array): number;
  /**
   * Forgets all but the first `chunks` chunks. Returns how many it still has: none if it no longer
   * knows the SHA-256 at that point.
   */
  rewind(chunks: number): number;
  /** Returns the SHA-256 of all chunks in lowercase hex. */
  digest(): string;
}

/** A broken connection loses the chunks in flight, which are fewer. */
const KEPT_STATES = 64;

export function createRunningHash(): RunningHash {
  let hash = createHash('sha256');
  let chunks = 0;
  /** The last states, by number of chunks. */
  const states = new Map<number, Hash>();

  return {
    update(chunk) {
      states.set(chunks, hash.copy());
      states.delete(chunks - KEPT_STATES);
      hash.update(chunk);
      chunks++;
      return hash.copy().digest().readUInt32BE(0);
    },
    rewind(to) {
      if (to === chunks) return chunks;
      const state = states.get(to);
      for (const later of states.keys()) if (later > to) states.delete(later);
      hash = state?.copy() ?? createHash('sha256');
      chunks = state ? to : 0;
      return chunks;
    },
    digest: () => hash.copy().digest('hex'),
  };
}
