import { Readable } from 'node:stream';
import { startCrc64 } from './crc64.ts';

/** A block that is sent while its chunks come, because it is larger than may be kept in memory. */
export interface BlockStream {
  readonly body: Readable;
  /** Resolves when `chunk` is of no more use. Throws when nobody reads the body any more. */
  push(chunk: Uint8Array): Promise<void>;
  /** CRC-64 of all that was pushed. */
  crc64(): Buffer;
}

export function createBlockStream(bytes: number): BlockStream {
  const running = startCrc64();
  let left = bytes;
  let wanted = Promise.withResolvers<void>();
  wanted.promise.catch(() => {});
  const body = new Readable({ highWaterMark: 1, read: () => wanted.resolve() });
  body.on('close', () => wanted.reject(new Error('the connection ended within a block')));
  body.on('error', () => {});
  return {
    body,
    async push(chunk) {
      await wanted.promise;
      wanted = Promise.withResolvers();
      wanted.promise.catch(() => {});
      running.update(chunk);
      left -= chunk.length;
      // Copied: the chunk's memory is another's as soon as this resolves.
      body.push(Buffer.from(chunk));
      if (left === 0) body.push(null);
    },
    crc64: () => running.digest(),
  };
}
