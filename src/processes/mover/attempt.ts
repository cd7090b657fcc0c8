import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import type { Cause, Handled } from '../../commands/handle.ts';
import { endAttempt, startTransfer } from '../../commands/transfers.ts';
import { reasonOf } from '../../domain/errors.ts';
import type { AttemptFailure } from '../../domain/transfers/errors.ts';
import {
  type AttemptFigures,
  type GivenBack,
  isAborted,
  type Transfer,
} from '../../domain/transfers/transfer.ts';
import { cleanUpIfEnded } from '../dispatch/cleanups.ts';
import type { JobRecorder } from '../dispatch/consumer.ts';
import { lowerPlaces, movesElsewhere } from '../dispatch/fewer-places.ts';
import type { Claim } from '../dispatch/job-table/leases.ts';
import type { Catalog } from '../endpoints/catalog.ts';
import { holdSignIn } from '../endpoints/sign-in-holds.ts';
import { untilAnswered } from '../until-answered.ts';
import { isOfMachine, LeaseLost, toFailure } from './failure.ts';
import type { LeftToOthers } from './left-to-others.ts';
import { createMeter } from './meter.ts';
import {
  type AttemptContext,
  type Attempted,
  type MoveDeps,
  moveBetween,
  type Wanted,
} from './move-between.ts';
import type { Shortage } from './shortage.ts';
import {
  busyTarget,
  isOutdated,
  notConnected,
  refusedSignIn,
  refusingTarget,
  type Target,
  targetsOf,
  version,
} from './targets.ts';

export interface AttemptDeps extends MoveDeps {
  store: EventStore;
  sql: Sql;
  logger: Logger;
  actor: string;
  processId: string;
  leftToOthers: Pick<LeftToOthers, 'add'>;
  shortage: Pick<Shortage, 'note'>;
  retryDelays: number[];
  record: JobRecorder;
  /** Counts bytes that destinations have acknowledged. */
  moved(bytes: number): void;
  /** Aborts when the process no longer waits for an unavailable store. */
  givenUp: AbortSignal;
}

/**
 * How an attempt ended:
 * - `not_begun`: the transfer was cancelled, or another claim took it, before the attempt began.
 * - `aborted`: an operator has ended the transfer.
 * - `lease_lost`: another process has decided how the attempt ends.
 * - `not_recorded`: the stores were unavailable until the process had to stop, or the append
 *   failed.
 */
export const ATTEMPT_ENDS = [
  'completed',
  'retried',
  'failed',
  'released',
  'aborted',
  'lease_lost',
  'not_begun',
  'not_recorded',
] as const;
export type AttemptEnd = (typeof ATTEMPT_ENDS)[number];

/** Why an attempt is stopped from outside. */
export type StopReason = 'shutdown' | 'lease_lost';

export interface Attempt {
  claim: Claim;
  /** Returns the live figures. Each renewal of the lease saves them. */
  figures(): AttemptFigures;
  stop(reason: StopReason): void;
  /** Resolves when the attempt has ended. Never rejects. */
  done: Promise<AttemptEnd>;
}

/** Starts to move one claimed transfer. Appends the end of the attempt. `done` never rejects. */
export function beginAttempt(deps: AttemptDeps, claim: Claim, catalog: Catalog): Attempt {
  const stopping = new AbortController();
  const context: AttemptContext = {
    claim,
    ...targetsOf(claim, catalog),
    meter: createMeter(deps.moved),
    signal: stopping.signal,
  };
  const done = run(deps, context).catch((error: unknown) => {
    // The lease expires, and another mover takes over.
    deps.logger.error(
      { err: error, transfer_id: claim.transferId, claim_id: claim.claimId },
      'the end of an attempt could not be recorded; another attempt follows when its lease ends',
    );
    return 'not_recorded' as const;
  });
  return { claim, figures: context.meter.read, stop: (reason) => stopping.abort(reason), done };
}

async function run(deps: AttemptDeps, context: AttemptContext): Promise<AttemptEnd> {
  const { claim, signal } = context;
  const { transferId, claimId } = claim;
  const cause = { actor: deps.actor, correlationId: claimId };
  const started = await start(deps, context, cause);
  if (started && !holds(started, claimId)) return 'not_begun';

  const { leftovers, ...outcome }: Attempted = started
    ? await attempt(deps, context, started.state.facts)
    : givenBack(context, whyStopped(signal));
  // It was stopped, maybe with a request under way. Before the end: no crash may lose this.
  if (started && outcome.type === 'released' && wasStopped(outcome.why))
    await untilAnswered(() => deps.lookLater(claim), deps.givenUp);
  await deps.gather();
  // The stream decides whether the claim is still valid, even after a long outage.
  const ended = await untilAnswered(
    () => endAttempt(deps, transferId, claimId, outcome, cause, started ?? undefined),
    deps.givenUp,
  );
  await recordInJob(deps, started, ended);
  if (!endedBy(ended, cause)) return leaveToOthers(deps, claim, ended.state);
  if (outcome.type === 'failed') return ended.state.status === 'failed' ? 'failed' : 'retried';
  if (outcome.type === 'completed') {
    const again = () => cleanUpIfEnded(deps.sql, claim, ended.state);
    if (leftovers) await untilAnswered(again, deps.givenUp);
    return 'completed';
  }
  return outcome.why === 'lease_lost' ? 'lease_lost' : 'released';
}

/** Appends the start. Returns null if the attempt was stopped before the append was confirmed. */
async function start(
  deps: AttemptDeps,
  { claim, source, destination, signal }: AttemptContext,
  cause: Cause,
): Promise<Handled<Transfer> | null> {
  const { transferId, claimId } = claim;
  const versions = { source: version(source), destination: version(destination) };
  try {
    return await untilAnswered(
      () => startTransfer(deps, transferId, { claimId, ...versions }, cause),
      signal,
    );
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  }
}

function holds({ state }: Handled<Transfer>, claimId: string): boolean {
  return state.status === 'in_progress' && state.claim_id === claimId;
}

/** Returns whether this attempt appended its end: now, or by an append whose answer was lost. */
function endedBy({ state, events, last }: Handled<Transfer>, cause: Cause): boolean {
  if (events.length > 0) return true;
  const { actor, correlation_id } = last?.metadata ?? {};
  const ours = actor === cause.actor && correlation_id === cause.correlationId;
  return ours && state.status !== 'in_progress';
}

/**
 * Records start and end in the job, which may not show the start yet. If Postgres is unavailable,
 * the subscription does it later.
 */
async function recordInJob(
  { record }: AttemptDeps,
  started: Handled<Transfer> | null,
  ended: Handled<Transfer>,
): Promise<void> {
  await record(...(started ? [started] : []), ended).catch((error: unknown) => {
    if (!isStoreUnavailable(error)) throw error;
  });
}

/**
 * Schedules clean-up again. The process that ended the attempt has cleaned up, maybe before this
 * attempt wrote its last bytes.
 */
async function leaveToOthers(
  { sql, givenUp }: AttemptDeps,
  claim: Claim,
  state: Transfer,
): Promise<'aborted' | 'lease_lost'> {
  await untilAnswered(() => cleanUpIfEnded(sql, claim, state), givenUp);
  return isAborted(state) ? 'aborted' : 'lease_lost';
}

function givenBack({ meter }: AttemptContext, why: GivenBack): Attempted {
  return { type: 'released', figures: meter.resumable(), why };
}

/** Also if the lease expired: maybe only Postgres was unavailable, and no mover was lost. */
function whyStopped(signal: AbortSignal): StopReason {
  return signal.reason === 'shutdown' ? 'shutdown' : 'lease_lost';
}

/** Returns false if the attempt had ended by itself. */
function wasStopped(why: GivenBack): boolean {
  return why === 'shutdown' || why === 'lease_lost';
}

async function attempt(
  deps: AttemptDeps,
  context: AttemptContext,
  facts: Wanted,
): Promise<Attempted> {
  const { claim, meter, signal } = context;
  try {
    return await moveBetween(deps, context, facts);
  } catch (error) {
    if (error instanceof LeaseLost || signal.aborted) return givenBack(context, whyStopped(signal));
    if (isOfMachine(error)) {
      deps.shortage.note(reasonOf(error));
      return givenBack(context, 'out_of_resources');
    }
    const failure = toFailure(error);
    if (await untilAnswered(() => isOutdated(deps, context, failure), signal).catch(() => false))
      return givenBack(context, 'endpoint_changed');
    const busy = busyTarget(context, error);
    const refusing = busy ?? refusingTarget(context, failure);
    if (refusing && (await leaveToQueue(deps, refusing, failure, busy !== null, signal)))
      return givenBack(context, 'no_connection');
    const refused = refusedSignIn(context, failure.phase);
    if (failure.code === 'auth_failed' && refused) await hold(deps, refused, signal);
    const lost = notConnected(context, failure);
    if (lost) deps.connectivity.failed(lost.configured.endpoint_id, failure);
    const log = {
      transfer_id: claim.transferId,
      claim_id: claim.claimId,
      code: failure.code,
      phase: failure.phase,
    };
    if (failure.code === 'internal_error')
      deps.logger.error({ err: error, ...log }, 'an attempt failed with an unexpected error');
    else deps.logger.info({ reason: reasonOf(error), ...log }, 'an attempt failed');
    const figures = meter.read();
    const resumedBytes = meter.resumed();
    return { type: 'failed', failure, figures, resumedBytes, retryDelays: deps.retryDelays };
  }
}

/**
 * Lets transfers of the endpoint wait in the queue for one of the connections that the server
 * accepts. Resolves with false if Waybill has none of these, or if Postgres was unavailable. A
 * server that did not say that it is `busy` may be down: then another mover must move bytes there.
 */
async function leaveToQueue(
  deps: AttemptDeps,
  { configured: { endpoint_id, name } }: Target,
  { code }: AttemptFailure,
  busy: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const waits = async () => {
    if (code !== 'connection_failed' || (await hasConnections(deps, name)))
      return busy && lowerPlaces(deps.sql, endpoint_id);
    const others = await movesElsewhere(deps.sql, endpoint_id, deps.processId, {
      withBytes: !busy,
    });
    if (others) deps.leftToOthers.add(endpoint_id);
    return others;
  };
  const left = await untilAnswered(waits, signal).catch(() => false);
  if (left)
    deps.logger.warn(
      { endpoint: name },
      'an endpoint has fewer connections than max_connections allows',
    );
  return left;
}

/** Returns whether this process has a connection to an endpoint, for reading or for writing. */
async function hasConnections({ sources, destinations }: AttemptDeps, name: string) {
  const counts = await Promise.all([sources.connections(), destinations.connections()]);
  return counts.some((open) => (open.get(name) ?? 0) > 0);
}

/**
 * Puts the sign-in on hold. If the attempt is stopped first, the next attempt tries the sign-in.
 */
async function hold({ sql }: AttemptDeps, { configured }: Target, signal: AbortSignal) {
  await untilAnswered(() => holdSignIn(sql, configured), signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
