import { newId } from '../../../src/domain/ids.ts';
import { createBufferPool } from '../../../src/processes/mover/buffer-pool.ts';
import { createInlineHasher } from '../../../src/processes/mover/hash/hasher.ts';
import { createMeter } from '../../../src/processes/mover/meter.ts';
import { moveFile } from '../../../src/processes/mover/move/move.ts';
import type { Move, MovedFrom } from '../../../src/processes/mover/move/move-state.ts';

const CHUNK_BYTES = 8 << 20;

/** Moves a file with one attempt of a mover, which saves its records nowhere. */
export function moveWith(
  given: Pick<Move, 'source' | 'destination'> & Partial<Move>,
): Promise<MovedFrom> {
  return moveFile({
    transferId: newId('txr'),
    claimId: newId('clm'),
    overwrite: true,
    options: {},
    removesSource: false,
    listed: null,
    record: null,
    meter: createMeter(() => undefined),
    buffers: createBufferPool(8, CHUNK_BYTES),
    opened: async () => undefined,
    createHasher: createInlineHasher,
    save: async () => true,
    destinationLost: async () => undefined,
    signal: new AbortController().signal,
    ...given,
  });
}
