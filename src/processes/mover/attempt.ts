import type { Logger } from 'pino';
import type { CommitProof, DestinationFile, ResumePoint, SourceFile } from '../../adapters/files/port.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { endAttempt, type Outcome, startTransfer } from '../../commands/transfers.ts';
import type { AttemptFigures } from '../../domain/transfer.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';
import { asStored } from '../admission.ts';
import { type Claim, saveResumePoint } from '../claims.ts';
import { recordInJobs } from '../jobs.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import { AttemptError, onSide, toFailure } from './failure.ts';
import { pump } from './pump.ts';
import type { SlotPool } from './slots.ts';

export interface AttemptDeps {
  store: EventStore;
  sql: Sql;
  logger: Logger;
  actor: string;
  retryDelays: number[];
  endpoints: EndpointPool;
  slots: SlotPool;
  /** Renews the lease at this moment; false where the claim is lost. */
  renew(claim: Claim): Promise<boolean>;
}

/** Why an attempt is stopped from outside. */
export type StopReason = 'shutdown' | 'lease_lost';

export interface Attempt {
  claim: Claim;
  /** Live figures, which the lease's renewal notes. */
  figures: AttemptFigures;
  stop(reason: StopReason): void;
  /** Resolves when the attempt has ended, whatever came of it. */
  done: Promise<void>;
}

/** The claim is another's by now: nothing may be written in its name, to the log or to the destination. */
class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

interface Target {
  configured: ConfiguredEndpoint;
  path: string;
}

/** Begins to move one claimed transfer. What comes of it goes into the log; `done` never rejects. */
export function beginAttempt(deps: AttemptDeps, claim: Claim, catalog: ConfiguredEndpoint[]): Attempt {
  const stopping = new AbortController();
  const figures: AttemptFigures = { transferred_bytes: 0, size_bytes: null, speed_bps: null };
  const done = run(deps, claim, catalog, figures, stopping.signal).catch((error: unknown) => {
    // The log could not be written: the lease runs out, and another mover takes over.
    deps.logger.error({ err: error, transfer_id: claim.transferId, claim_id: claim.claimId }, 'an attempt could not be recorded');
  });
  return { claim, figures, stop: (reason) => stopping.abort(reason), done };
}

async function run(deps: AttemptDeps, claim: Claim, catalog: ConfiguredEndpoint[], figures: AttemptFigures, signal: AbortSignal): Promise<void> {
  const { transferId, claimId, accountId } = claim;
  const cause = { actor: deps.actor, accountId, correlationId: claimId };
  const source = target(claim.source, catalog, accountId);
  const destination = target(claim.destination, catalog, accountId);
  const versions = { source: version(source), destination: version(destination) };
  const started = await startTransfer(deps, transferId, { claimId, ...versions }, cause);
  await recordInJobs(deps.sql, asStored(started));
  if (started.state.status !== 'in_progress' || started.state.claim_id !== claimId) return;

  const outcome = await attempt(deps, claim, source, destination, figures, signal);
  if (outcome === 'lease_lost') return;
  const ended = await endAttempt(deps, transferId, claimId, outcome, cause);
  await recordInJobs(deps.sql, asStored(ended));
}

async function attempt(
  deps: AttemptDeps,
  claim: Claim,
  source: Target | null,
  destination: Target | null,
  figures: AttemptFigures,
  signal: AbortSignal,
): Promise<Outcome | 'lease_lost'> {
  try {
    if (!source) {
      const message = 'No endpoint that this account may use matches the source';
      throw new AttemptError({ code: 'source_endpoint_not_configured', message, phase: 'prepare' });
    }
    if (!destination) throw new AttemptError({ code: 'endpoint_removed', message: 'The endpoint of the destination is gone', phase: 'prepare' });
    return await moveBetween(deps, claim, source, destination, figures, signal);
  } catch (error) {
    if (error instanceof LeaseLost || signal.reason === 'lease_lost') return 'lease_lost';
    if (signal.reason === 'shutdown') return { type: 'released', figures: { ...figures } };
    const failure = toFailure(error);
    const log = { err: error, transfer_id: claim.transferId, claim_id: claim.claimId, code: failure.code, phase: failure.phase };
    if (failure.code === 'internal_error') deps.logger.error(log, 'an attempt failed in an unforeseen way');
    else deps.logger.info(log, 'an attempt failed');
    return { type: 'failed', failure, figures: { ...figures }, retryDelays: deps.retryDelays };
  }
}

async function moveBetween(
  deps: AttemptDeps,
  claim: Claim,
  source: Target,
  destination: Target,
  figures: AttemptFigures,
  signal: AbortSignal,
): Promise<Outcome> {
  const from = await deps.endpoints.lend(source.configured);
  try {
    const to = await deps.endpoints.lend(destination.configured);
    try {
      const reading = await onSide('source', () => from.endpoint.openSource(source.path, signal));
      try {
        figures.size_bytes = reading.identity.size;
        const writing = await onSide('destination', () =>
          to.endpoint.openDestination(destination.path, {
            transferId: claim.transferId,
            claimId: claim.claimId,
            size: reading.identity.size,
            overwrite: destination.configured.overwrite,
            resume: claim.resumePoint as ResumePoint | null,
            signal,
          }),
        );
        return await moveOpened(deps, claim, reading, writing, figures, signal);
      } finally {
        await reading.close();
      }
    } finally {
      to.release();
    }
  } finally {
    from.release();
  }
}

/** Moves, checks and commits. After an error the part is removed, unless the claim is another's by then. */
async function moveOpened(
  deps: AttemptDeps,
  claim: Claim,
  reading: SourceFile,
  writing: DestinationFile,
  figures: AttemptFigures,
  signal: AbortSignal,
): Promise<Outcome> {
  try {
    // Tells a successor of the part, should this process not live to remove it.
    await saveResumePoint(deps.sql, claim, writing.resumePoint(0));
    const startedAt = performance.now();
    const { bytes, sha256 } = await pump({
      source: reading,
      destination: writing,
      slots: deps.slots,
      signal,
      onBytes(acknowledged) {
        figures.transferred_bytes = acknowledged;
        figures.speed_bps = Math.round((acknowledged * 8_000) / Math.max(1, performance.now() - startedAt));
      },
    });
    await checkUnchanged(reading, bytes);
    signal.throwIfAborted();
    if (!(await deps.renew(claim))) throw new LeaseLost('The lease ran out before the commit');
    const proof = await onSide('destination', () => writing.commit({ size: bytes, sha256 }));
    return completed(bytes, sha256, proof, figures);
  } catch (error) {
    const another = error instanceof LeaseLost || signal.reason === 'lease_lost';
    // A successor may have taken the part over already: it is not ours to remove any more.
    await (another ? writing.close() : writing.discard()).catch(() => undefined);
    throw error;
  }
}

async function checkUnchanged(reading: SourceFile, bytes: number): Promise<void> {
  const now = await onSide('source', () => reading.stat());
  const { size, version: before } = reading.identity;
  if (now.size !== size || now.version !== before || bytes !== size) {
    const message = `The source changed while it was read: ${size} bytes of ${before} at the start, ${now.size} bytes of ${now.version} at the end`;
    throw new AttemptError({ code: 'source_changed', message, phase: 'verify' });
  }
}

function completed(bytes: number, sha256: string, proof: CommitProof, figures: AttemptFigures): Outcome {
  if (proof.size !== bytes) {
    const message = `${bytes} bytes were sent, and the destination holds ${proof.size}`;
    throw new AttemptError({ code: 'size_mismatch', message, phase: 'verify' });
  }
  const { destinationChecksum, atomicReplace } = proof;
  return {
    type: 'completed',
    sizeBytes: bytes,
    speedBps: figures.speed_bps,
    checksumSha256: sha256,
    verification: { size: true, source_unchanged: true, destination_checksum: destinationChecksum, read_back: false, atomic_replace: atomicReplace },
  };
}

function target(uri: string, catalog: ConfiguredEndpoint[], accountId: string): Target | null {
  const match = matchEndpoint(parseTransferUri(uri, 'uri'), catalog, accountId);
  return match && { configured: match.endpoint, path: match.path };
}

function version(match: Target | null) {
  return match && { id: match.configured.endpoint_id, revision: match.configured.revision };
}
