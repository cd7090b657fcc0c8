import { createHash } from 'node:crypto';
import type { DestinationFile, SourceFile } from '../../adapters/files/port.ts';
import { onSide } from './failure.ts';
import { SLOT_BYTES, type Slot, type SlotPool } from './slots.ts';

/** Chunks of one file that are on their way at once, at most. */
const SLOTS_PER_FILE = 6;

export interface Pump {
  source: SourceFile;
  destination: DestinationFile;
  slots: SlotPool;
  signal: AbortSignal;
  /** Told the bytes that the destination has acknowledged so far. */
  onBytes(acknowledged: number): void;
}

/**
 * Moves every byte from source to destination, chunk by chunk, several at once on both sides, and
 * hashes them in their order as they pass. Gives the bytes it has counted and their SHA-256 in hex.
 * Throws AttemptError at the first error of a side; the caller closes both.
 */
export async function pump({ source, destination, slots, signal, onBytes }: Pump): Promise<{ bytes: number; sha256: string }> {
  const { size } = source.identity;
  const chunkSize = Math.min(destination.chunkSize, SLOT_BYTES);
  const hash = createHash('sha256');
  const reads = createTurns(source.parallelReads);
  const writes = createTurns(destination.parallelWrites);
  const underWay = new Set<Promise<void>>();
  let hashed: Promise<unknown> = Promise.resolve();
  let bytes = 0;

  /** Reads, hashes and writes one chunk; its turns are taken in the order of the calls. */
  async function moveChunk(offset: number, slot: Slot): Promise<void> {
    const { buffer } = slot;
    const read = reads(() => onSide('source', () => source.read(offset, buffer)));
    hashed = Promise.all([read, hashed]).then(() => hash.update(buffer));
    const written = writes(async () => {
      await read;
      await onSide('destination', () => destination.write(offset, buffer));
    });
    // The slot is somebody else's only when nobody touches it any more, also after an error.
    const settled = await Promise.allSettled([hashed, written]);
    slot.release();
    const failed = settled.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
    bytes += buffer.length;
    onBytes(bytes);
  }

  for (let offset = 0; offset < size; offset += chunkSize) {
    const wanted = Math.min(chunkSize, size - offset);
    let slot = underWay.size < SLOTS_PER_FILE ? slots.tryTake(wanted) : null;
    while (!slot) {
      if (underWay.size > 0) await Promise.race(underWay);
      slot = underWay.size === 0 ? await slots.take(wanted, signal) : slots.tryTake(wanted);
    }
    signal.throwIfAborted();
    const chunk = moveChunk(offset, slot);
    underWay.add(chunk);
    chunk.then(
      () => underWay.delete(chunk),
      () => undefined,
    );
  }
  await Promise.all(underWay);
  return { bytes, sha256: hash.digest('hex') };
}

/** Lets so many run at once, in the order in which they came. */
function createTurns(atOnce: number): <T>(work: () => Promise<T>) => Promise<T> {
  const running: Promise<unknown>[] = [];
  return (work) => {
    const before = running.length < atOnce ? Promise.resolve() : running.shift();
    const result = (before as Promise<unknown>).then(work);
    running.push(result.catch(() => undefined));
    return result;
  };
}
