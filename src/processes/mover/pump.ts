import type { DestinationFile, SourceFile } from '../../adapters/files/port.ts';
import { AttemptError, onSide } from './failure.ts';
import { chunkCount, type MoveState } from './move-state.ts';
import type { Slot, SlotPool } from './slots.ts';

/** Chunks of one file that are on their way at once, at most. */
const SLOTS_PER_FILE = 6;

export interface Pump {
  state: MoveState;
  source: SourceFile;
  destination: DestinationFile;
  slots: SlotPool;
  signal: AbortSignal;
  /** Told after every chunk that the destination has acknowledged. */
  onDelivered(bytes: number): void;
  /** Told of an error while both sides are still open: what is delivered by then can be saved. Never rejects. */
  onBroken(): Promise<void>;
}

/**
 * Moves what is still to be moved, chunk by chunk, several at once on both sides, and hashes every chunk
 * once, in order, as it passes. What the destination has already is read once more only where this
 * process has not hashed it yet, and held against its CRC-32. Throws AttemptError at the first error of
 * a side, with both sides closed; `state` then says how far it came.
 */
export async function pump({ state, source, destination, slots, signal, onDelivered, onBroken }: Pump): Promise<void> {
  const { chunkSize, crcs } = state;
  const chunks = chunkCount(state);
  const delivered = new Set<number>();
  const reads = createTurns(source.parallelReads);
  const writes = createTurns(destination.parallelWrites);
  const underWay = new Set<Promise<void>>();
  const firstToHash = state.hashed;
  const firstToWrite = state.delivered;
  let hashing: Promise<unknown> = Promise.resolve();
  let outdated = false;

  /** Its turns are taken in the order of the calls. */
  async function moveChunk(chunk: number, slot: Slot): Promise<void> {
    const { buffer } = slot;
    const offset = chunk * chunkSize;
    const read = reads(() => onSide('source', () => source.read(offset, buffer)));
    const hashed = chunk >= firstToHash ? hashInOrder(chunk, buffer, read) : compare(chunk, buffer, read);
    const written = chunk >= firstToWrite ? write(offset, buffer, read) : null;
    // The slot is somebody else's only when nobody touches it any more, also after an error.
    const settled = await Promise.allSettled([hashed, written]);
    slot.release();
    const failed = settled.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
    if (chunk < firstToWrite || outdated) return;
    delivered.add(chunk);
    while (delivered.delete(state.delivered)) state.delivered++;
    onDelivered(buffer.length);
  }

  function hashInOrder(chunk: number, buffer: Uint8Array, read: Promise<void>): Promise<void> {
    const turn = Promise.all([read, hashing]).then(async () => {
      const crc = await state.hasher.update(buffer);
      state.hashed = chunk + 1;
      keepCrc(chunk, crc);
    });
    hashing = turn;
    return turn;
  }

  async function compare(chunk: number, buffer: Uint8Array, read: Promise<void>): Promise<void> {
    await read;
    keepCrc(chunk, await state.hasher.check(buffer));
  }

  function keepCrc(chunk: number, crc: number): void {
    const before = crcs[chunk];
    if (before !== undefined && before !== crc) {
      // What the destination has of the old content is of no use to whoever tries again.
      outdated = true;
      state.delivered = 0;
      const message = `Bytes ${chunk * chunkSize} and on of the source are not what they were when they were first read`;
      throw new AttemptError({ code: 'source_changed', message, phase: 'read' });
    }
    crcs[chunk] = crc;
  }

  function write(offset: number, buffer: Uint8Array, read: Promise<void>): Promise<void> {
    return writes(async () => {
      await read;
      await onSide('destination', () => destination.write(offset, buffer));
    });
  }

  async function nextSlot(bytes: number): Promise<Slot> {
    for (;;) {
      if (underWay.size === 0) return slots.take(bytes, signal);
      const slot = underWay.size < SLOTS_PER_FILE ? slots.tryTake(bytes) : null;
      if (slot) return slot;
      await Promise.race(underWay);
    }
  }

  try {
    for (let chunk = Math.min(firstToHash, firstToWrite); chunk < chunks; chunk++) {
      const slot = await nextSlot(Math.min(chunkSize, state.source.size - chunk * chunkSize));
      const moving = moveChunk(chunk, slot);
      underWay.add(moving);
      moving.then(
        () => underWay.delete(moving),
        () => undefined,
      );
      signal.throwIfAborted();
    }
    await Promise.all(underWay);
  } catch (error) {
    await onBroken();
    // What is still under way must not change the state behind the back of whoever goes on with it.
    await Promise.allSettled([source.close(), destination.close()]);
    await Promise.allSettled(underWay);
    throw error;
  }
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
