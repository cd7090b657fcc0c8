/** Bytes of a chunk: one `read` or `write` of a big file. */
export const CHUNK_SIZE = 8 << 20;

/** Cuts bytes into the pieces of one request each, of at most `size` bytes. Copies nothing. */
export function pieces(bytes: Buffer, size: number): [start: number, piece: Buffer][] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => [
    index * size,
    bytes.subarray(index * size, (index + 1) * size),
  ]);
}
