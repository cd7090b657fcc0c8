/**
 * Bytes of a chunk: one `read` or `write` of a big object. A part is one chunk if that is enough.
 */
export const CHUNK_SIZE = 8 << 20;

/** Limits of a multipart upload (Amazon S3 User Guide, "Amazon S3 multipart upload limits"). */
const MAX_PARTS = 10_000;
const MAX_PART_SIZE = 5 * 2 ** 30;

/** How an upload is split into parts, in bytes. */
export interface PartLimits {
  chunkSize: number;
  maxParts: number;
}

export const PART_LIMITS: PartLimits = { chunkSize: CHUNK_SIZE, maxParts: MAX_PARTS };

/**
 * Returns the size of every part but the last, in bytes: the fewest whole chunks that keep the
 * number of parts within the limit. Returns null if no part size is large enough.
 */
export function partSizeOf(size: number, { chunkSize, maxParts }: PartLimits): number | null {
  const partSize = Math.max(1, Math.ceil(size / maxParts / chunkSize)) * chunkSize;
  return partSize <= MAX_PART_SIZE ? partSize : null;
}
