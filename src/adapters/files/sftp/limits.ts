/** Bytes of a chunk: what one `read` or `write` of a big file carries. */
export const CHUNK_SIZE = 8 << 20;

/** Start and end of each piece of `length` bytes that is cut into pieces of at most `size`. */
export function slices(length: number, size: number): [number, number][] {
  return Array.from({ length: Math.ceil(length / size) }, (_, index) => [index * size, Math.min(length, (index + 1) * size)]);
}
