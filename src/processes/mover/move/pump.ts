import type { DestinationFile, SourceFile } from '../../../adapters/files/port.ts';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import type { FileBuffers, PooledBuffer } from '../buffer-pool.ts';
import { AttemptError, onSide } from '../failure.ts';
import { chunkCount, type MoveState } from './move-state.ts';

/** Concurrent chunks of one file, at most. */
const BUFFERS_PER_FILE = 6;

export interface Pump {
  state: MoveState;
  source: SourceFile;
  destination: DestinationFile;
  buffers: FileBuffers;
  signal: AbortSignal;
  /** Called when all reads have ended, while the last chunks are hashed and written. */
  onRead(): void;
  /** Called after each chunk that the destination has acknowledged. */
  onDelivered(): void;
  /** Called at an error, while the destination is still open, to save the progress. Never rejects. */
  onBroken(): Promise<void>;
}

/**
 * Moves the remaining chunks, several at once on both sides, and hashes them in order. It reads a
 * delivered chunk again only if this process has not hashed it. It compares a chunk that was read
 * before with the sum after it. Throws AttemptError at the first error of a side, with both sides
 * closed. If the source broke, the destination first takes what was read. `state` then has the
 * progress of the move.
 */
export async function pump({
  state,
  source,
  destination,
  buffers,
  signal,
  onRead,
  onDelivered,
  onBroken,
}: Pump): Promise<void> {
  const { chunkSize, sums } = state;
  const chunks = chunkCount(state);
  const delivered = new Set<number>();
  const reads = createSemaphore(source.parallelReads);
  const writes = createSemaphore(destination.parallelWrites);
  const underWay = new Set<Promise<void>>();
  /** Resolve when hash and write no longer use a buffer, also after an error. */
  const inUse = new Set<Promise<void>>();
  const firstToWrite = state.delivered;
  // What was hashed and not delivered is read, hashed and compared again.
  if (state.hashed > firstToWrite)
    state.hashed = (await state.hasher.rewind(firstToWrite * chunkSize)) / chunkSize;
  const firstToHash = state.hashed;
  let toRead = chunks - firstToHash;
  let hashing: Promise<unknown> = Promise.resolve();
  /** Resolves when the last write may begin. The writes before it have begun then. */
  let begun: Promise<void> = Promise.resolve();
  let sourceChanged = false;

  /** Must be called in the order of the chunks: the calls queue for reads, hash and writes. */
  async function moveChunk(chunk: number, pooled: PooledBuffer): Promise<void> {
    const { buffer } = pooled;
    const offset = chunk * chunkSize;
    const read = reads.run(() => onSide('source', () => source.read(offset, buffer)));
    read.then(
      () => --toRead === 0 && onRead(),
      () => undefined,
    );
    const hashed = hashInOrder(chunk, buffer, read);
    const written = chunk >= firstToWrite ? write(offset, buffer, read) : null;
    const released = Promise.allSettled([hashed, written]).then(() => {
      pooled.release();
      inUse.delete(released);
    });
    inUse.add(released);
    // An error does not wait: the write of this chunk may be behind others, at a slow destination.
    await Promise.all([hashed, written]);
    await released;
    if (chunk < firstToWrite || sourceChanged) return;
    delivered.add(chunk);
    while (delivered.delete(state.delivered)) state.delivered++;
    onDelivered();
  }

  function hashInOrder(chunk: number, buffer: Uint8Array, read: Promise<void>): Promise<void> {
    const hashed = Promise.all([read, hashing]).then(async () => {
      const sum = await state.hasher.update(buffer);
      state.hashed = chunk + 1;
      keepSum(chunk, sum);
    });
    hashing = hashed;
    return hashed;
  }

  function keepSum(chunk: number, sum: number): void {
    const before = sums[chunk];
    if (before && before !== sum) {
      // The destination's chunks are of the old content: the next attempt must not use them.
      sourceChanged = true;
      state.delivered = 0;
      const offset = chunk * chunkSize;
      const message = `The source changed: bytes from ${offset} on differ from the first read`;
      throw new AttemptError({ code: 'source_changed', message, phase: 'read' });
    }
    sums[chunk] = sum;
  }

  function write(offset: number, buffer: Uint8Array, read: Promise<void>): Promise<void> {
    const ready = destination.inOrder ? begun.then(() => read) : read;
    begun = ready;
    // Its write may still wait for others when it is rejected.
    ready.catch(() => undefined);
    return writes.run(async () => {
      await ready;
      await onSide('destination', () => destination.write(offset, buffer));
    });
  }

  async function nextBuffer(bytes: number): Promise<PooledBuffer> {
    for (;;) {
      if (underWay.size === 0) return buffers.take(bytes, signal);
      const pooled = underWay.size < BUFFERS_PER_FILE ? buffers.tryTake(bytes) : null;
      if (pooled) return pooled;
      await Promise.race(underWay);
    }
  }

  async function ended(): Promise<void> {
    await Promise.allSettled([...underWay, ...inUse]);
  }

  try {
    for (let chunk = firstToHash; chunk < chunks; chunk++) {
      const pooled = await nextBuffer(Math.min(chunkSize, state.source.size - chunk * chunkSize));
      const moving = moveChunk(chunk, pooled);
      underWay.add(moving);
      moving.then(
        () => underWay.delete(moving),
        () => undefined,
      );
      signal.throwIfAborted();
    }
    await Promise.all(underWay);
  } catch (error) {
    await source.close();
    // A slow destination may not have taken all that was read. It need not be read and sent again.
    if (canContinue(error)) await ended();
    await onBroken();
    // The caller may retry with `state`: chunks under way must not change it after this returns.
    await destination.close();
    await ended();
    throw error;
  }
}

/** Returns whether the source broke, and what was read of it is still of use. */
function canContinue(error: unknown): boolean {
  if (!(error instanceof AttemptError)) return false;
  const { phase, code } = error.failure;
  return phase === 'read' && code !== 'source_changed';
}
