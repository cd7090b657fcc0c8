import type { UnixTime } from '../modification-time.ts';
import { type ContentHeaders, FileError, type FileIdentity, type SourceFile } from '../port.ts';
import type { Lifetime } from './lifetime.ts';

/** What an answer says of a file. */
export interface Described {
  identity: FileIdentity;
  modifiedAt: UnixTime | null;
  headers: ContentHeaders;
}

/** The answer to a request for a range, before its bytes are read. */
export interface Answer {
  /** The header `Content-Range`. */
  range: string | undefined;
  /** Describes the whole file, whose size is given. */
  describe(size: number): Described;
  /** Reads the bytes into the target and returns how many arrived. */
  read(): Promise<number>;
  /** Discards the bytes. */
  discard(): void;
}

export interface Requests {
  /**
   * Requests the bytes that fill `target`, from `first` on. With an identity, only of that version.
   */
  get(first: number, target: Uint8Array, identity: FileIdentity | null): Promise<Answer>;
  /** Returns whether the server rejects the range because the file ends before it. */
  isPastEnd(error: unknown): boolean;
  stat(): Promise<Described>;
}

/** A file as the first request found it. */
interface Found extends Described {
  /** The first bytes of the file, as many as came with that request. */
  head: Uint8Array;
}

/**
 * The first request asks for this many bytes instead of the properties alone. Most files are no
 * longer.
 */
const HEAD_BYTES = 64 << 10;

const NO_BYTES = new Uint8Array(0);

/** Opens a source that reads each range with one request. */
export async function openRanges(
  name: string,
  lifetime: Lifetime,
  { get, isPastEnd, stat }: Requests,
): Promise<SourceFile> {
  async function readHead(): Promise<Found> {
    const bytes = Buffer.allocUnsafeSlow(HEAD_BYTES);
    const answer = await get(0, bytes, null).catch((error) => {
      // An empty file rejects every range.
      if (isPastEnd(error)) return null;
      throw error;
    });
    const range = answer && headRange(answer.range);
    if (answer === null || range === null) {
      answer?.discard();
      return { ...(await stat()), head: NO_BYTES };
    }
    const described = answer.describe(range.size);
    // If the content breaks off here, its range is read again later.
    const taken = await answer.read().catch(() => 0);
    return { ...described, head: taken === range.bytes ? bytes.subarray(0, taken) : NO_BYTES };
  }

  const { identity, modifiedAt, headers, head } = await lifetime.run('open', readHead);
  const { size } = identity;

  async function fill(first: number, target: Uint8Array): Promise<void> {
    const wanted = `bytes ${first}-${first + target.length - 1}/${size}`;
    const answer = await get(first, target, identity);
    if (answer.range !== wanted) {
      answer.discard();
      const sent = answer.range ?? 'no range';
      throw new FileError(
        'source_changed',
        'transfer',
        `${name}: requested ${wanted}, the server sends ${sent}`,
      );
    }
    const taken = await answer.read();
    if (taken !== target.length) {
      throw new FileError(
        'connection_failed',
        'transfer',
        `${name}: the server sent ${taken} of ${target.length} bytes`,
      );
    }
  }

  return {
    identity,
    modifiedAt,
    headers,
    parallelReads: 4,
    readAtOnce: head.length === size,
    async read(offset, target) {
      if (offset + target.length > size)
        throw new FileError('source_changed', 'transfer', `${name} has ${size} bytes`);
      const known = head.subarray(offset, offset + target.length);
      target.set(known);
      if (known.length === target.length) return;
      await lifetime.run('transfer', () =>
        fill(offset + known.length, target.subarray(known.length)),
      );
    },
    stat: () => lifetime.run('verify', async () => (await stat()).identity),
    close: lifetime.close,
  };
}

/** The error of a file whose size no answer says. Without it, the end of the file is unknown. */
export function sizeUnknown(): FileError {
  return new FileError('size_unknown', 'open', 'The answer of the server has no Content-Length');
}

/**
 * Returns the bytes in the answer and the size of the file, if the range starts the file; else
 * null.
 */
function headRange(range: string | undefined): { bytes: number; size: number } | null {
  const [, last, size] = /^bytes 0-(\d+)\/(\d+)$/.exec(range ?? '') ?? [];
  return Number(last) < HEAD_BYTES ? { bytes: Number(last) + 1, size: Number(size) } : null;
}
