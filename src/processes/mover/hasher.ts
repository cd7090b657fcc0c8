import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Hashes the chunks of one file, in their order. */
export interface Hasher {
  /** Takes a chunk into the SHA-256 and gives its CRC-32. */
  update(chunk: Uint8Array): Promise<number>;
  /** The CRC-32 of a chunk that the SHA-256 has seen already. */
  check(chunk: Uint8Array): Promise<number>;
  /** Lowercase hex SHA-256 of all chunks; ends the hasher. */
  digest(): Promise<string>;
  /** Ends the hasher without an answer. */
  close(): void;
}

/** A hasher on this thread: for files so small that sending them to another would cost more. */
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
