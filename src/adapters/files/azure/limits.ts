/**
 * Bytes of a chunk: one `read` or `write` of a big blob. A block is one chunk if that is enough.
 */
export const CHUNK_SIZE = 8 << 20;

/**
 * Limits of a block blob ("Scalability and performance targets for Blob storage", service version
 * 2019-12-12 and later).
 */
const MAX_BLOCKS = 50_000;
const MAX_BLOCK_SIZE = 4000 * 2 ** 20;

/** How a blob is split into blocks, in bytes. */
export interface BlockLimits {
  chunkSize: number;
  maxBlocks: number;
}

export const BLOCK_LIMITS: BlockLimits = { chunkSize: CHUNK_SIZE, maxBlocks: MAX_BLOCKS };

/**
 * Returns the size of every block but the last, in bytes: the fewest whole chunks that keep the
 * number of blocks within the limit. Returns null if no block size is large enough.
 */
export function blockSizeOf(size: number, { chunkSize, maxBlocks }: BlockLimits): number | null {
  const blockSize = Math.max(1, Math.ceil(size / maxBlocks / chunkSize)) * chunkSize;
  return blockSize <= MAX_BLOCK_SIZE ? blockSize : null;
}
