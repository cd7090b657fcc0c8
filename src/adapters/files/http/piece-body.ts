import { Readable } from 'node:stream';

/** A body that is sent while its chunks arrive, because it is too large for memory. */
export interface PieceBody {
  readonly body: Readable;
  /**
   * Waits until the body is read, then sends what `encode` makes of the chunk. `encode` must return
   * a copy: the caller reuses the chunk as soon as this resolves. Throws if the body is closed.
   */
  push(chunk: Uint8Array, encode: (isLast: boolean) => Buffer): Promise<void>;
}

export function createPieceBody(bytes: number): PieceBody {
  let left = bytes;
  let wanted = quietPromise();
  const body = new Readable({ highWaterMark: 1, read: () => wanted.resolve() });
  const endedEarly = () => new Error('the connection ended within a piece');
  body.on('close', () => wanted.reject(endedEarly()));
  body.on('error', () => {});
  return {
    body,
    async push(chunk, encode) {
      await wanted.promise;
      // A read may still be pending when the stream closes; data pushed now would never be
      // consumed.
      if (body.destroyed) throw endedEarly();
      wanted = quietPromise();
      left -= chunk.length;
      body.push(encode(left === 0));
      if (left === 0) body.push(null);
    },
  };
}

/** Creates a promise whose rejection may stay unhandled. */
function quietPromise(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => {});
  return made;
}
