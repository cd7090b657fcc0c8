/** Bytes of a chunk: what one `read` or `write` of a big object carries, and a whole part where that is enough. */
export const CHUNK_SIZE = 8 << 20;

/** Limits of a multipart upload (Amazon S3 User Guide, "Amazon S3 multipart upload limits"). */
const MAX_PARTS = 10_000;
const MAX_PART_SIZE = 5 * 2 ** 30;

/** What an upload's parts are cut into, in bytes. */
export interface PartLimits {
  chunkSize: number;
  maxParts: number;
}

export const PART_LIMITS: PartLimits = { chunkSize: CHUNK_SIZE, maxParts: MAX_PARTS };

/** Bytes of every part but the last: as many whole chunks as keep the number of parts within the limit; null where no size does. */
export function partSizeOf(size: number, { chunkSize, maxParts }: PartLimits): number | null {
  const partSize = Math.max(1, Math.ceil(size / maxParts / chunkSize)) * chunkSize;
  return partSize <= MAX_PART_SIZE ? partSize : null;
}
