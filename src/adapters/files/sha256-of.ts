import { createHash } from 'node:crypto';
import type { SourceFile } from './port.ts';

const PIECE_BYTES = 1 << 20;

/** Reads a file to its end and closes it. Returns its SHA-256, in lowercase hex. */
export async function sha256Of(file: SourceFile): Promise<string> {
  const hash = createHash('sha256');
  const { size } = file.identity;
  try {
    for (let offset = 0; offset < size; offset += PIECE_BYTES) {
      const piece = Buffer.alloc(Math.min(PIECE_BYTES, size - offset));
      await file.read(offset, piece);
      hash.update(piece);
    }
    return hash.digest('hex');
  } finally {
    await file.close();
  }
}
