import { Readable } from 'node:stream';

/** A body that is sent while its chunks come, because it is larger than may be kept in memory. */
export interface PieceBody {
  readonly body: Readable;
  /**
   * Waits until the body is wanted, and sends what `encode` makes of the chunk, which must be memory of its own: the chunk's
   * is another's as soon as this resolves. Throws when nobody reads the body any more.
   */
  push(chunk: Uint8Array, encode: (isLast: boolean) => Buffer): Promise<void>;
}

export function createPieceBody(bytes: number): PieceBody {
  let left = bytes;
  let wanted = awaitable();
  const body = new Readable({ highWaterMark: 1, read: () => wanted.resolve() });
  const endedEarly = () => new Error('the connection ended within a piece');
  body.on('close', () => wanted.reject(endedEarly()));
  body.on('error', () => {});
  return {
    body,
    async push(chunk, encode) {
      await wanted.promise;
      // More may have been wanted just before it was closed: nobody would ever want what is pushed now.
      if (body.destroyed) throw endedEarly();
      wanted = awaitable();
      left -= chunk.length;
      body.push(encode(left === 0));
      if (left === 0) body.push(null);
    },
  };
}

/** A promise whose rejection nobody has to be waiting for. */
function awaitable(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => {});
  return made;
}
