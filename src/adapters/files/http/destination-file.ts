import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { type DestinationFile, FileError } from '../port.ts';
import type { Lifetime } from './lifetime.ts';
import type { Replace } from './replace.ts';

/** A destination whose bytes are visible only after the commit. */
export type UploadedFile = Omit<DestinationFile, 'close' | 'openWritten' | 'showPart'>;

/**
 * Wraps a destination: after its lifetime ends it writes nothing, and it throws FileErrors only.
 */
export function destinationFile(file: UploadedFile, lifetime: Lifetime): DestinationFile {
  return {
    ...file,
    pacesRequests: true,
    write: (offset, data) =>
      lifetime.run('transfer', async () => {
        await file.write(offset, data);
        lifetime.ended.throwIfAborted();
      }),
    commit: (whole) => lifetime.run('commit', () => file.commit(whole)),
    openWritten: async () => null,
    showPart: async () => null,
    close: lifetime.close,
  };
}

/**
 * Keeps the bytes in memory until the commit sends them in one request. Nothing is on the server
 * before that.
 */
export function singleRequest(
  name: string,
  { size, chunkSize }: { size: number; chunkSize: number },
  { looked, put }: Replace,
): UploadedFile {
  let content = Buffer.alloc(0);
  return {
    parallelWrites: 1,
    chunkSize,
    resumedFrom: 0,
    async write(_offset, data) {
      content = Buffer.from(data);
    },
    async resumePoint() {
      await looked;
      return { bytes: 0, state: null };
    },
    async commit(whole) {
      if (content.length !== whole.size || size !== whole.size) {
        throw new FileError(
          'size_mismatch',
          'commit',
          `${name}: ${content.length} of ${whole.size} bytes were written`,
        );
      }
      await looked;
      return put(content, createHash('md5').update(content).digest());
    },
  };
}

/** An object as its server describes it. */
interface Described {
  size: number;
  version: string | undefined;
}

/**
 * Returns whether another writer has replaced what was committed. Some servers name no version in
 * the answer to a commit, or an empty one, or leave out the quotes.
 */
export function isReplaced(committed: Described, found: Described): boolean {
  const [made, there] = [committed, found].map(({ version }) => version?.replaceAll('"', ''));
  return Boolean(made) && there !== made;
}

/**
 * Throws `size_mismatch` if the object under a name has another size than what was committed there.
 * If another writer has replaced it, the server has still acknowledged the commit, and a retry
 * would replace a newer object.
 */
export function assertCommitted(name: string, committed: Described, found: Described): void {
  if (found.size === committed.size || isReplaced(committed, found)) return;
  throw new FileError(
    'size_mismatch',
    'commit',
    `${name}: the server has ${found.size} bytes, ${committed.size} bytes were sent`,
  );
}

/** A part or block that is sent while its chunks arrive. */
export interface Piece {
  stream: { readonly body: Readable; push(chunk: Uint8Array): Promise<void> };
  /** Resolves with the server's answer. */
  sent: Promise<void>;
}

/**
 * Sends the consecutive chunks of each piece in one request. Only the last chunk of a piece waits
 * for the server's answer: a resume point counts answered pieces, not written chunks. `begin` gets
 * the piece's number, from 0.
 */
export function streamedPieces(
  { size, pieceSize }: { size: number; pieceSize: number },
  begin: (index: number) => Piece,
): DestinationFile['write'] {
  let piece: Piece | null = null;
  return async (offset, data) => {
    if (offset % pieceSize === 0) {
      const started = begin(offset / pieceSize);
      started.sent.catch(() => started.stream.body.destroy());
      piece = started;
    }
    if (piece === null) throw new Error('the first chunk of a piece is missing');
    const { stream, sent } = piece;
    const end = offset + data.length;
    // If the body is closed, the error of its request is the cause.
    await stream.push(data).catch((error) => sent.then(() => Promise.reject(error)));
    if (end % pieceSize === 0 || end === size) await sent;
  };
}
