import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { type CommitProof, type DestinationFile, FileError } from '../port.ts';
import type { Lifetime } from './lifetime.ts';

/** A destination that writes no more, and says why in FileErrors, once its lifetime has ended. */
export function destinationFile(file: Omit<DestinationFile, 'close'>, lifetime: Lifetime): DestinationFile {
  return {
    ...file,
    write: (offset, data) =>
      lifetime.run('transfer', async () => {
        await file.write(offset, data);
        lifetime.ended.throwIfAborted();
      }),
    commit: (whole) => lifetime.run('commit', () => file.commit(whole)),
    close: lifetime.close,
  };
}

/** Bytes that are kept in memory until the commit puts them, in one request: before it nothing stands on the server. */
export function singleRequest(
  name: string,
  { size, chunkSize }: { size: number; chunkSize: number },
  put: (content: Buffer, md5: Buffer) => Promise<CommitProof>,
): Omit<DestinationFile, 'close'> {
  let content = Buffer.alloc(0);
  return {
    parallelWrites: 1,
    chunkSize,
    resumedFrom: 0,
    async write(_offset, data) {
      content = Buffer.from(data);
    },
    resumePoint: async () => ({ bytes: 0, state: null }),
    async commit(whole) {
      if (content.length !== whole.size || size !== whole.size) {
        throw new FileError('size_mismatch', 'commit', `${name}: ${content.length} of ${whole.size} bytes were written`);
      }
      return put(content, createHash('md5').update(content).digest());
    },
  };
}

/** A piece that is on its way to the server while its chunks come. */
export interface Piece {
  stream: { readonly body: Readable; push(chunk: Uint8Array): Promise<void> };
  /** Resolves with the server's answer. */
  sent: Promise<void>;
}

/**
 * Writes chunks of one piece after the other into one request each. Only the last chunk of a piece waits for the server's
 * answer: the resume point, unlike a written chunk, counts only pieces that were answered. `begin` is given a piece's number,
 * from 0.
 */
export function streamedPieces(
  { size, pieceSize }: { size: number; pieceSize: number },
  begin: (index: number) => Piece,
): DestinationFile['write'] {
  let piece: Piece | null = null;
  return async (offset, data) => {
    if (offset % pieceSize === 0) {
      const begun = begin(offset / pieceSize);
      begun.sent.catch(() => begun.stream.body.destroy());
      piece = begun;
    }
    if (piece === null) throw new Error('a piece was begun in its middle');
    const { stream, sent } = piece;
    const end = offset + data.length;
    // The cause of a body that nobody reads is what became of its request.
    await stream.push(data).catch((error) => sent.then(() => Promise.reject(error)));
    if (end % pieceSize === 0 || end === size) await sent;
  };
}
