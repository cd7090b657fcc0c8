/*
 * Holds the streams that may continue, each as its last event left it.
 *
 * Streams of accesses never end, and each process and each command begins one. So only those that
 * got the last events are held. Of the others, a table of bits remembers the names: it has one
 * size for any number of them. Two names may share a bit, so a stream that the table names may be
 * new. The log tells.
 */
import { hash } from 'node:crypto';
import { parseStream } from '../../domain/events/streams.ts';

/** Streams of accesses that are held. Each process writes to one at a time. */
const HELD = 1_000;
/** 16 MiB. With a million names, the log is read for one new stream of a hundred without need. */
const BITS = 27;

export interface OpenStreams<Stream> {
  get(stream: string): Stream | null;
  set(stream: string, last: Stream): void;
  delete(stream: string): void;
  /** Returns whether the stream may have had events that are not held any more. */
  mayBeForgotten(stream: string): boolean;
  /** Returns the streams other than those of accesses, by name. */
  others(): ReadonlyMap<string, Stream>;
  /** Returns all streams that are held. */
  held(): [string, Stream][];
  /** Returns whether a stream was forgotten. */
  hasForgotten(): boolean;
}

/**
 * Creates them with those that an earlier run held. If that run has forgotten some, any other
 * stream of accesses may be one of these.
 */
export function createOpenStreams<Stream>(
  known: Iterable<[string, Stream]>,
  hasForgotten: boolean,
): OpenStreams<Stream> {
  const others = new Map<string, Stream>();
  /** The stream that got the last event is the last. */
  const accesses = new Map<string, Stream>();
  let forgotten = hasForgotten ? new Uint8Array(2 ** (BITS - 3)).fill(0xff) : null;

  function forgetOldest(): void {
    const [oldest] = accesses.keys();
    if (oldest === undefined) return;
    accesses.delete(oldest);
    forgotten ??= new Uint8Array(2 ** (BITS - 3));
    const { byte, bit } = placeOf(oldest);
    forgotten[byte] = (forgotten[byte] ?? 0) | bit;
  }

  const streams: OpenStreams<Stream> = {
    get: (stream) => others.get(stream) ?? accesses.get(stream) ?? null,
    set(stream, last) {
      if (parseStream(stream).kind !== 'access') return void others.set(stream, last);
      accesses.delete(stream);
      accesses.set(stream, last);
      if (accesses.size > HELD) forgetOldest();
    },
    delete: (stream) => void others.delete(stream),
    mayBeForgotten(stream) {
      if (forgotten === null || accesses.has(stream)) return false;
      if (parseStream(stream).kind !== 'access') return false;
      const { byte, bit } = placeOf(stream);
      return ((forgotten[byte] ?? 0) & bit) !== 0;
    },
    others: () => others,
    held: () => [...others, ...accesses],
    hasForgotten: () => forgotten !== null,
  };
  for (const [stream, last] of known) streams.set(stream, last);
  return streams;
}

function placeOf(stream: string): { byte: number; bit: number } {
  const place = hash('sha256', stream, 'buffer').readUInt32BE(0) >>> (32 - BITS);
  return { byte: place >>> 3, bit: 1 << (place & 7) };
}
