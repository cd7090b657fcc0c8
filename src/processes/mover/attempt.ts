import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { endAttempt, type Outcome, startTransfer } from '../../commands/transfers.ts';
import type { AttemptFigures } from '../../domain/transfer.ts';
import { type AttemptFailure, isNetworkFailure } from '../../domain/transfer-errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';
import type { Claim, ResumeSave } from '../claims.ts';
import { cleanUpIfEnded, type JobRecorder } from '../jobs.ts';
import type { Reachability } from '../reachability.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import { AttemptError, LeaseLost, toFailure } from './failure.ts';
import type { Hasher } from './hasher.ts';
import { moveFile } from './move.ts';
import type { ResumeRecord } from './move-state.ts';
import { holdSignIn } from './sign-in-holds.ts';
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
  record: JobRecorder;
  reachability: Reachability;
  /** Keeps what a successor needs and renews the lease; false where the claim is lost. */
  saveRecord(save: ResumeSave): Promise<boolean>;
  slots: SlotPool;
  /** A pause, so that what several attempts have to write is written together. */
  gather(): Promise<void>;
  /** Told of bytes that a destination has acknowledged. */
  moved(bytes: number): void;
}

/** What there is to move between, as it was when the claim was taken. */
export interface Catalog {
  endpoints: ConfiguredEndpoint[];
  /** Ids of endpoints whose sign-in was refused a moment ago. */
  held: Set<string>;
}

/** How an attempt ended. `not_begun`: its transfer was cancelled, or claimed by another, before. */
export type AttemptEnd = 'completed' | 'retried' | 'failed' | 'released' | 'lease_lost' | 'not_begun' | 'not_recorded';

/** Why an attempt is stopped from outside. */
export type StopReason = 'shutdown' | 'lease_lost';

export interface Attempt {
  claim: Claim;
  /** Live figures, which the lease's renewal notes. */
  figures: AttemptFigures;
  stop(reason: StopReason): void;
  /** Resolves when the attempt has ended, whatever came of it. */
  done: Promise<AttemptEnd>;
}

interface Target {
  configured: ConfiguredEndpoint;
  path: string;
  /** Its sign-in was refused a moment ago, and is not tried again yet. */
  held: boolean;
}

interface Errand {
  claim: Claim;
  source: Target | null;
  destination: Target | null;
  figures: AttemptFigures;
  signal: AbortSignal;
}

/** Begins to move one claimed transfer. What comes of it goes into the log; `done` never rejects. */
export function beginAttempt(deps: AttemptDeps, claim: Claim, catalog: Catalog): Attempt {
  const stopping = new AbortController();
  const errand: Errand = {
    claim,
    source: target(claim.source, catalog, claim.accountId),
    destination: target(claim.destination, catalog, claim.accountId),
    figures: { transferred_bytes: 0, size_bytes: null, speed_bps: null },
    signal: stopping.signal,
  };
  const done = run(deps, errand).catch((error: unknown) => {
    // The log could not be written: the lease runs out, and another mover takes over.
    deps.logger.error({ err: error, transfer_id: claim.transferId, claim_id: claim.claimId }, 'an attempt could not be recorded');
    return 'not_recorded' as const;
  });
  return { claim, figures: errand.figures, stop: (reason) => stopping.abort(reason), done };
}

async function run(deps: AttemptDeps, errand: Errand): Promise<AttemptEnd> {
  const { claim, source, destination } = errand;
  const { transferId, claimId } = claim;
  const cause = { actor: deps.actor, correlationId: claimId };
  const versions = { source: version(source), destination: version(destination) };
  const started = await startTransfer(deps, transferId, { claimId, ...versions }, cause);
  if (started.state.status !== 'in_progress' || started.state.claim_id !== claimId) return 'not_begun';

  const outcome = await attempt(deps, errand);
  if (outcome === 'lease_lost') return leaveToOthers(deps, claim);
  await deps.gather();
  const ended = await endAttempt(deps, transferId, claimId, outcome, cause, started);
  // The row may not have heard of the beginning yet.
  await deps.record(started, ended);
  // Nothing was appended: somebody else has decided meanwhile what comes of this transfer.
  if (ended.events.length === 0) return leaveToOthers(deps, claim);
  if (outcome.type === 'failed') return ended.state.status === 'failed' ? 'failed' : 'retried';
  return outcome.type === 'completed' ? 'completed' : 'released';
}

/** Whoever ended the transfer has cleaned up, maybe before this attempt wrote its last. */
async function leaveToOthers({ sql }: AttemptDeps, claim: Claim): Promise<'lease_lost'> {
  await cleanUpIfEnded(sql, claim);
  return 'lease_lost';
}

async function attempt(deps: AttemptDeps, errand: Errand): Promise<Outcome | 'lease_lost'> {
  const { claim, signal } = errand;
  const figures = () => ({ ...errand.figures });
  try {
    return await moveBetween(deps, errand, readySource(errand), readyDestination(errand));
  } catch (error) {
    if (error instanceof LeaseLost || signal.reason === 'lease_lost') return 'lease_lost';
    if (signal.reason === 'shutdown') return { type: 'released', figures: figures() };
    const failure = toFailure(error);
    const refused = refusedSignIn(errand, failure.phase);
    if (failure.code === 'auth_failed' && refused) await holdSignIn(deps.sql, refused.configured);
    const away = notConnected(errand, failure);
    if (away) deps.reachability.failed(away.configured.endpoint_id, failure);
    const log = { err: error, transfer_id: claim.transferId, claim_id: claim.claimId, code: failure.code, phase: failure.phase };
    if (failure.code === 'internal_error') deps.logger.error(log, 'an attempt failed in an unforeseen way');
    else deps.logger.info(log, 'an attempt failed');
    return { type: 'failed', failure, figures: figures(), retryDelays: deps.retryDelays };
  }
}

function readySource({ source }: Errand): Target {
  if (!source) {
    const message = 'No endpoint that this account may use matches the source';
    throw new AttemptError({ code: 'source_endpoint_not_configured', message, phase: 'prepare' });
  }
  if (source.held) throw new AttemptError({ code: 'auth_failed', message: 'Authentication failed', phase: 'source_sign_in' });
  return source;
}

function readyDestination({ destination }: Errand): Target {
  if (!destination) {
    throw new AttemptError({ code: 'endpoint_removed', message: 'The endpoint of the destination is gone', phase: 'prepare' });
  }
  if (destination.held) throw new AttemptError({ code: 'auth_failed', message: 'Authentication failed', phase: 'destination_sign_in' });
  return destination;
}

/** The side that has just refused a sign-in; null where it was not even tried. */
function refusedSignIn({ source, destination }: Errand, phase: string): Target | null {
  const side = phase === 'source_sign_in' ? source : destination;
  return side && !side.held ? side : null;
}

/** The side to which no connection could be made; null where it was something else. */
function notConnected({ source, destination }: Errand, { code, phase }: AttemptFailure): Target | null {
  if (!isNetworkFailure(code)) return null;
  if (phase === 'source_connect') return source;
  return phase === 'destination_connect' ? destination : null;
}

async function moveBetween(deps: AttemptDeps, { claim, figures, signal }: Errand, source: Target, destination: Target): Promise<Outcome> {
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
        // Where nothing may be overwritten, only this record tells our own file from that of another.
        save: async (record) => {
          if (record.committing) await deps.gather();
          return deps.saveRecord({ claim, record, durable: record.committing !== null && !destination.configured.overwrite });
        },
        moved: deps.moved,
        signal,
      });
      for (const { configured } of [source, destination]) deps.reachability.reached(configured.endpoint_id);
      return { type: 'completed', sizeBytes: bytes, speedBps: figures.speed_bps, checksumSha256: sha256, verification };
    } finally {
      to.release();
    }
  } finally {
    from.release();
  }
}

function target(uri: string, { endpoints, held }: Catalog, accountId: string): Target | null {
  const match = matchEndpoint(parseTransferUri(uri, 'uri'), endpoints, accountId);
  return match && { configured: match.endpoint, path: match.path, held: held.has(match.endpoint.endpoint_id) };
}

function version(match: Target | null) {
  return match && { id: match.configured.endpoint_id, revision: match.configured.revision };
}
