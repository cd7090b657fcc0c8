/** Bytes of a chunk: one `read` or `write` of a big file. */
export const CHUNK_SIZE = 8 << 20;

/**
 * Returns start and end of each piece when `length` bytes are cut into pieces of at most `size`.
 */
export function slices(length: number, size: number): [number, number][] {
  return Array.from({ length: Math.ceil(length / size) }, (_, index) => [
    index * size,
    Math.min(length, (index + 1) * size),
  ]);
}
