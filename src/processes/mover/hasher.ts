import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Hashes the chunks of one file, in order. */
export interface Hasher {
  /** Adds a chunk to the SHA-256 and returns its CRC-32. */
  update(chunk: Uint8Array): Promise<number>;
  /** Returns the CRC-32 of a chunk that the SHA-256 already has. */
  check(chunk: Uint8Array): Promise<number>;
  /** Returns the SHA-256 of all chunks in lowercase hex. Ends the hasher. */
  digest(): Promise<string>;
  /** Ends the hasher without a result. */
  close(): void;
}

/** Creates a hasher on this thread, for small files: a message to the hash thread costs more. */
export function createInlineHasher(): Hasher {
  const hash = createHash('sha256');
  return {
    async update(chunk) {
      hash.update(chunk);
      return crc32(chunk);
    },
    check: async (chunk) => crc32(chunk),
    digest: async () => hash.digest('hex'),
    close: () => undefined,
  };
}
