import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { endAttempt, type Outcome, startTransfer } from '../../commands/transfers.ts';
import type { AttemptFigures } from '../../domain/transfer.ts';
import type { TransferPhase } from '../../domain/transfer-errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';
import { asStored } from '../admission.ts';
import { type Claim, saveResumeRecord } from '../claims.ts';
import { recordInJobs } from '../jobs.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import { AttemptError, LeaseLost, toFailure } from './failure.ts';
import type { Hasher } from './hasher.ts';
import { moveFile } from './move.ts';
import type { ResumeRecord } from './move-state.ts';
import { heldSignIns, holdSignIn } from './sign-in-holds.ts';
import type { SlotPool } from './slots.ts';

export interface AttemptDeps {
  store: EventStore;
  sql: Sql;
  logger: Logger;
  actor: string;
  retryDelays: number[];
  /** Endpoints to read from and to write to: each side works in a thread of its own. */
  sources: EndpointPool;
  destinations: EndpointPool;
  createHasher(size: number): Hasher;
  slots: SlotPool;
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

async function run(
  deps: AttemptDeps,
  claim: Claim,
  catalog: ConfiguredEndpoint[],
  figures: AttemptFigures,
  signal: AbortSignal,
): Promise<void> {
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
    if (!destination)
      throw new AttemptError({ code: 'endpoint_removed', message: 'The endpoint of the destination is gone', phase: 'prepare' });
    await refuseHeldSignIns(deps.sql, source, destination);
    return await moveBetween(deps, claim, source, destination, figures, signal);
  } catch (error) {
    if (error instanceof LeaseLost || signal.reason === 'lease_lost') return 'lease_lost';
    if (signal.reason === 'shutdown') return { type: 'released', figures: { ...figures } };
    const failure = toFailure(error);
    if (failure.code === 'auth_failed' && !(error instanceof SignInHeld))
      await holdSignIn(deps.sql, sideOf(failure.phase, source, destination));
    const log = { err: error, transfer_id: claim.transferId, claim_id: claim.claimId, code: failure.code, phase: failure.phase };
    if (failure.code === 'internal_error') deps.logger.error(log, 'an attempt failed in an unforeseen way');
    else deps.logger.info(log, 'an attempt failed');
    return { type: 'failed', failure, figures: { ...figures }, retryDelays: deps.retryDelays };
  }
}

/** A sign-in that was refused a moment ago is not tried again. */
class SignInHeld extends AttemptError {}

async function refuseHeldSignIns(sql: Sql, source: Target, destination: Target): Promise<void> {
  const held = await heldSignIns(sql, [source.configured, destination.configured]);
  const sides = { source_sign_in: source, destination_sign_in: destination } as const;
  for (const [phase, { configured }] of Object.entries(sides) as [keyof typeof sides, Target][]) {
    if (held.has(configured.endpoint_id)) throw new SignInHeld({ code: 'auth_failed', message: 'Authentication failed', phase });
  }
}

function sideOf(phase: TransferPhase, source: Target | null, destination: Target | null): ConfiguredEndpoint {
  return ((phase === 'source_sign_in' ? source : destination) as Target).configured;
}

async function moveBetween(
  deps: AttemptDeps,
  claim: Claim,
  source: Target,
  destination: Target,
  figures: AttemptFigures,
  signal: AbortSignal,
): Promise<Outcome> {
  const from = await deps.sources.lend(source.configured);
  try {
    const to = await deps.destinations.lend(destination.configured);
    try {
      const { bytes, sha256, verification } = await moveFile({
        transferId: claim.transferId,
        claimId: claim.claimId,
        source: { endpoint: from.endpoint, path: source.path },
        destination: { endpoint: to.endpoint, path: destination.path },
        overwrite: destination.configured.overwrite,
        record: claim.resumeRecord as ResumeRecord | null,
        figures,
        slots: deps.slots,
        createHasher: deps.createHasher,
        save: (record) => saveResumeRecord(deps.sql, claim, record),
        signal,
      });
      return { type: 'completed', sizeBytes: bytes, speedBps: figures.speed_bps, checksumSha256: sha256, verification };
    } finally {
      to.release();
    }
  } finally {
    from.release();
  }
}

function target(uri: string, catalog: ConfiguredEndpoint[], accountId: string): Target | null {
  const match = matchEndpoint(parseTransferUri(uri, 'uri'), catalog, accountId);
  return match && { configured: match.endpoint, path: match.path };
}

function version(match: Target | null) {
  return match && { id: match.configured.endpoint_id, revision: match.configured.revision };
}
