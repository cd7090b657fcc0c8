import { createRunningHash } from './running-hash.ts';

/** Hashes the chunks of one file, in order. See `RunningHash`. */
export interface Hasher {
  update(chunk: Uint8Array): Promise<number>;
  rewind(bytes: number): Promise<number>;
  digest(): Promise<string>;
  /** Ends the hasher. */
  close(): void;
}

/** Creates a hasher on this thread, for small files: a message to the hash thread costs more. */
export function createInlineHasher(): Hasher {
  const hash = createRunningHash();
  return {
    update: async (chunk) => hash.update(chunk),
    rewind: async (bytes) => hash.rewind(bytes),
    digest: async () => hash.digest(),
    close: () => undefined,
  };
}
