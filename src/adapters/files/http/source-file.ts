import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import type { Lifetime } from './lifetime.ts';

/** What is asked of a server, and how it must call that in its answer. */
export interface Range {
  first: number;
  last: number;
  /** The header `Content-Range`. */
  expected: string;
}

export interface Reads {
  /** Fills the whole of `target`. Throws where the answer is of anything but the range. */
  fill(range: Range, target: Uint8Array): Promise<void>;
  stat(): Promise<FileIdentity>;
}

/** A source whose ranges are read by a request each. */
export function sourceFile(name: string, identity: FileIdentity, lifetime: Lifetime, { fill, stat }: Reads): SourceFile {
  return {
    identity,
    parallelReads: 4,
    async read(first, target) {
      if (target.length === 0) return;
      const last = first + target.length - 1;
      const { size } = identity;
      if (last >= size) throw new FileError('source_changed', 'transfer', `${name} has ${size} bytes`);
      await lifetime.run('transfer', () => fill({ first, last, expected: `bytes ${first}-${last}/${size}` }, target));
    },
    stat: () => lifetime.run('verify', stat),
    close: lifetime.close,
  };
}

/** A server has sent something else than was asked for: the file is not the one that was opened. */
export function otherRange(name: string, { expected }: Range, sent: string | undefined): FileError {
  return new FileError('source_changed', 'transfer', `${name}: asked for ${expected}, the server sends ${sent ?? 'no range'}`);
}
