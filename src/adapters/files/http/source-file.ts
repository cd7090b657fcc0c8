import { FileError, type FileIdentity, type SourceFile } from '../port.ts';
import type { Lifetime } from './lifetime.ts';

/** What a server says to the request for a range, before its bytes are taken. */
export interface Answer {
  /** The header `Content-Range`. */
  range: string | undefined;
  /** What it says of the whole file, which has so many bytes. */
  identity(size: number): FileIdentity;
  /** Takes the bytes to their target; gives how many have come. */
  take(): Promise<number>;
  /** Leaves them to the server. */
  leave(): void;
}

export interface Requests {
  /** Asks for the bytes that fill `target`, from `first` on, of no other version than that of the identity. */
  get(first: number, target: Uint8Array, identity: FileIdentity | null): Promise<Answer>;
  /** Whether a server refuses because the file ends before the range begins. */
  isPastEnd(error: unknown): boolean;
  stat(): Promise<FileIdentity>;
}

/** A file as its first request has shown it. */
interface Found {
  identity: FileIdentity;
  /** The file's first bytes, as many as have come with it. */
  head: Uint8Array;
}

/** So much is asked for in place of a mere look at a file: most files are no longer than that. */
const HEAD_BYTES = 64 << 10;

const NO_BYTES = new Uint8Array(0);

/** Opens a source whose ranges are read by a request each. */
export async function openRanges(name: string, lifetime: Lifetime, { get, isPastEnd, stat }: Requests): Promise<SourceFile> {
  async function look(): Promise<Found> {
    const bytes = Buffer.allocUnsafeSlow(HEAD_BYTES);
    const answer = await get(0, bytes, null).catch((error) => {
      // As any range of an empty file is.
      if (isPastEnd(error)) return null;
      throw error;
    });
    const range = answer && headRange(answer.range);
    if (answer === null || range === null) {
      answer?.leave();
      return { identity: await stat(), head: NO_BYTES };
    }
    const identity = answer.identity(range.size);
    // What breaks off here is read again, by its range.
    const taken = await answer.take().catch(() => 0);
    return { identity, head: taken === range.bytes ? bytes.subarray(0, taken) : NO_BYTES };
  }

  const { identity, head } = await lifetime.run('open', look);
  const { size } = identity;

  async function fill(first: number, target: Uint8Array): Promise<void> {
    const wanted = `bytes ${first}-${first + target.length - 1}/${size}`;
    const answer = await get(first, target, identity);
    if (answer.range !== wanted) {
      answer.leave();
      const sent = answer.range ?? 'no range';
      throw new FileError('source_changed', 'transfer', `${name}: asked for ${wanted}, the server sends ${sent}`);
    }
    const taken = await answer.take();
    if (taken !== target.length) {
      throw new FileError('connection_failed', 'transfer', `${name}: the server sent ${taken} of ${target.length} bytes`);
    }
  }

  return {
    identity,
    parallelReads: 4,
    readAtOnce: head.length === size,
    async read(offset, target) {
      if (offset + target.length > size) throw new FileError('source_changed', 'transfer', `${name} has ${size} bytes`);
      const known = head.subarray(offset, offset + target.length);
      target.set(known);
      if (known.length === target.length) return;
      await lifetime.run('transfer', () => fill(offset + known.length, target.subarray(known.length)));
    },
    stat: () => lifetime.run('verify', stat),
    close: lifetime.close,
  };
}

/** How many bytes an answer has, and how many the file, where they are the file's first; null for any other. */
function headRange(range: string | undefined): { bytes: number; size: number } | null {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(range ?? '') ?? [];
  return Number(last) < HEAD_BYTES ? { bytes: Number(last) + 1, size: Number(size) } : null;
}
