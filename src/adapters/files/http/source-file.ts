import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import type { Lifetime } from './lifetime.ts';

/** What is asked of a server, and how it must call that in its answer. */
export interface Range {
  first: number;
  last: number;
  /** The header `Content-Range`. */
  expected: string;
}

/** A file as its first request has shown it. */
export interface Found {
  identity: FileIdentity;
  /** The file's first bytes, as many as have come with it. */
  head: Uint8Array;
}

export interface Reads {
  /** Fills the whole of `target`. Throws where the answer is of anything but the range. */
  fill(range: Range, target: Uint8Array): Promise<void>;
  stat(): Promise<FileIdentity>;
}

/** So much is asked for in place of a mere look at a file: most files are no longer than that. */
export const HEAD_BYTES = 64 << 10;

export const NO_BYTES = new Uint8Array(0);

/** A source whose ranges are read by a request each. */
export function sourceFile(name: string, { identity, head }: Found, lifetime: Lifetime, { fill, stat }: Reads): SourceFile {
  return {
    identity,
    parallelReads: 4,
    readAtOnce: head.length === identity.size,
    async read(offset, target) {
      const known = head.subarray(offset, offset + target.length);
      target.set(known);
      const first = offset + known.length;
      const last = offset + target.length - 1;
      const { size } = identity;
      if (last >= size) throw new FileError('source_changed', 'transfer', `${name} has ${size} bytes`);
      if (first > last) return;
      const range = { first, last, expected: `bytes ${first}-${last}/${size}` };
      await lifetime.run('transfer', () => fill(range, target.subarray(known.length)));
    },
    stat: () => lifetime.run('verify', stat),
    close: lifetime.close,
  };
}

/** The size of the file whose first bytes an answer holds, so many; null where it is of anything else. */
export function sizeOf(contentRange: string | undefined, bytes: number | null): number | null {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(contentRange ?? '') ?? [];
  return bytes !== null && Number(last) + 1 === bytes ? Number(size) : null;
}

/** A server has sent something else than was asked for: the file is not the one that was opened. */
export function otherRange(name: string, { expected }: Range, sent: string | undefined): FileError {
  return new FileError('source_changed', 'transfer', `${name}: asked for ${expected}, the server sends ${sent ?? 'no range'}`);
}
