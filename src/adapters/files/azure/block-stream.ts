import type { Readable } from 'node:stream';
import { createPieceBody } from '../http/piece-body.ts';
import { startCrc64 } from './crc64.ts';

/** A block that is sent while its chunks arrive. */
export interface BlockStream {
  readonly body: Readable;
  /** Resolves when the caller may reuse `chunk`. Throws if the body is closed. */
  push(chunk: Uint8Array): Promise<void>;
  /** Returns the CRC-64 of everything that was pushed. */
  crc64(): Buffer;
}

export function createBlockStream(bytes: number): BlockStream {
  const running = startCrc64();
  const { body, push } = createPieceBody(bytes);
  return {
    body,
    push: (chunk) =>
      push(chunk, () => {
        running.update(chunk);
        return Buffer.from(chunk);
      }),
    crc64: () => running.digest(),
  };
}
