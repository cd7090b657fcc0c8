import type { Outcome } from '../../commands/transfers.ts';
import { removesSource } from '../../domain/transfers/after.ts';
import type { TransferOptions } from '../../domain/transfers/options.ts';
import type { TransferCreated } from '../../domain/transfers/transfer.ts';
import type { ResumeSave } from '../dispatch/claims.ts';
import type { Claim } from '../dispatch/job-table/leases.ts';
import type { Connectivity } from '../endpoints/connectivity.ts';
import type { EndpointPool } from '../endpoints/pool.ts';
import { untilAnswered } from '../until-answered.ts';
import type { BandwidthLimits } from './bandwidth.ts';
import type { BufferPool } from './buffer-pool.ts';
import { onSide } from './failure.ts';
import type { Hasher } from './hash/hasher.ts';
import { createLimitedBuffers } from './limited-buffers.ts';
import type { Meter } from './meter.ts';
import { listedVersion } from './move/listed-version.ts';
import { moveFile } from './move/move.ts';
import type { ResumeRecord } from './move/move-state.ts';
import type { Slots } from './slots.ts';
import { readyDestination, readySource, type Targets } from './targets.ts';

export interface MoveDeps {
  /** Endpoints to read from and to write to. Each side has its own thread. */
  sources: EndpointPool;
  destinations: EndpointPool;
  createHasher(size: number): Hasher;
  connectivity: Connectivity;
  /** Schedules late looks at the destination of a claim. */
  lookLater(claim: Claim): Promise<void>;
  /** Saves the record from which a successor resumes, and renews the lease. False: claim lost. */
  saveRecord(save: ResumeSave): Promise<boolean>;
  buffers: BufferPool;
  slots: Pick<Slots, 'take'>;
  bandwidth: Pick<BandwidthLimits, 'use'>;
  /** Waits at the write barrier, so several attempts share one write. */
  gather(): Promise<void>;
}

export interface AttemptContext extends Targets {
  claim: Claim;
  meter: Meter;
  signal: AbortSignal;
}

/** `leftovers`: the transfer needs a clean-up, which its events do not show. */
export type Attempted = Exclude<Outcome, { type: 'mover_lost' }> & {
  leftovers?: boolean | undefined;
};

/** What the transfer says about the copy. */
export type Wanted = TransferOptions & Pick<TransferCreated, 'listed_version' | 'after'>;

/**
 * Moves the file of a claimed transfer over connections of the two pools. Throws what `moveFile`
 * throws.
 */
export async function moveBetween(
  deps: MoveDeps,
  context: AttemptContext,
  facts: Wanted,
): Promise<Attempted> {
  const { claim, meter, signal } = context;
  const source = readySource(context);
  const destination = readyDestination(context);
  const from = await onSide('source', () =>
    untilAnswered(() => deps.sources.lend(source.configured), signal),
  );
  const ends = { source: source.configured, destination: destination.configured };
  const bandwidth = deps.bandwidth.use(ends, () => buffers.keep());
  const buffers = createLimitedBuffers(deps.buffers, bandwidth.limited);
  const slot = deps.slots.take();
  const began = performance.now();
  try {
    const to = await onSide('destination', () =>
      untilAnswered(() => deps.destinations.lend(destination.configured), signal),
    );
    try {
      const { bytes, sha256, ...evidence } = await moveFile({
        transferId: claim.transferId,
        claimId: claim.claimId,
        source: { endpoint: from.endpoint, path: source.path },
        destination: { endpoint: to.endpoint, path: destination.path },
        overwrite: destination.configured.overwrite,
        options: facts,
        removesSource: removesSource(facts.after),
        listed: listedVersion(facts, source.configured),
        record: claim.resumeRecord as ResumeRecord | null,
        meter,
        buffers,
        opened: (bytes) => slot.opened(bytes, signal),
        createHasher: deps.createHasher,
        // If nothing may be overwritten, only this record identifies our own file.
        save: async (record) => {
          if (record.committing) await deps.gather();
          const durable = record.committing !== null && !destination.configured.overwrite;
          return untilAnswered(() => deps.saveRecord({ claim, record, durable }), signal);
        },
        destinationLost: () => untilAnswered(() => deps.lookLater(claim), signal),
        signal,
      });
      slot.completed();
      for (const { configured } of [source, destination])
        deps.connectivity.connected(configured.endpoint_id, performance.now() - began);
      return {
        type: 'completed',
        sizeBytes: bytes,
        speedBps: meter.read().speed_bps,
        checksumSha256: sha256,
        ...evidence,
      };
    } finally {
      to.release();
    }
  } finally {
    slot.leave();
    bandwidth.end();
    from.release();
  }
}
