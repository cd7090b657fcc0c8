/*
 * Takes the steps after completed transfers: writes markers, deletes and moves sources. Its to-do
 * list is `work.after_steps` (table.ts). It runs beside the movers and shares their connections.
 *
 * For each claimed row, it reads the stream, takes the next step, and appends the outcome at the
 * revision it read. The stream takes the outcome of a step once.
 *
 * What can go wrong:
 * - The process ends between a step and its event. The lease expires, and the next worker repeats
 *   the step. A marker is written again. A source that is gone counts as deleted only if the row
 *   says that a try had begun; the event then has `confirmed: false`.
 * - Another file takes the place of the source. Each adapter compares size and version, and deletes
 *   or moves nothing else (`dispose` in src/adapters/files/port.ts).
 * - A server refuses. The step is tried again after the retry delays of transfers, then given up:
 *   the source is kept, with the reason. Each failed try of a marker removes its part. A source first
 *   gets its name back (failures.ts).
 * - A server is down, or does not let Waybill sign in. It is tried for two weeks. These tries use up
 *   no retries of refusals (retries.ts).
 * - An endpoint is paused, or its sign-ins are on hold. Its steps are not claimed. One whose
 *   endpoint was not known waits, and no try counts.
 * - A partner is slow or silent. It gets a few places, and none that others need (places.ts).
 * - The process was frozen and outlives its lease. It names its claim before it changes the source.
 */
import type { Logger } from 'pino';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { FileError } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import { type KnownTransfer, loadAnyTransfer, recordAfter } from '../../commands/transfers.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { streamName } from '../../domain/events/streams.ts';
import { type AfterStep, nextStep } from '../../domain/transfers/after.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import { isClosed } from '../../domain/transfers/transfer.ts';
import { findEvent } from '../../projections/newest-of-log.ts';
import { type Catalog, loadCatalog } from '../endpoints/catalog.ts';
import type { EndpointPool } from '../endpoints/pool.ts';
import { untilAnswered } from '../until-answered.ts';
import {
  type Again,
  afterFailure,
  mayHaveChanged,
  type Settled,
  STEP_LIMIT_MS,
} from './failures.ts';
import { createPlaces, type StepTurn } from './places.ts';
import {
  type Completed,
  fileOf,
  givenUp,
  settleSource,
  whereHidden,
  writeMarker,
} from './steps.ts';
import {
  AFTER_CHANNEL,
  beginSourceStep,
  type ClaimedSteps,
  claimSteps,
  LEASE_SECONDS,
  releaseSteps,
  removeAfterSteps,
  renewClaims,
} from './table.ts';

const RENEW_MS = (LEASE_SECONDS * 1_000) / 3;
const LOOK_MS = 5_000;
const HELD_UP_MS = 5_000;

export interface AfterDeps {
  sql: Sql;
  /** For what must survive a crash of Postgres. */
  durable: Sql;
  store: EventStore;
  logger: Logger;
  actor: string;
  sources: EndpointPool;
  destinations: EndpointPool;
  retryDelays: number[];
}

/** Takes the steps after transfers until the signal aborts. */
export async function runAfterSteps(deps: AfterDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, AFTER_CHANNEL, wakeUp.wake, wakeUp.wake);
  signal.addEventListener('abort', wakeUp.wake);
  const running = new Map<ClaimedSteps, Promise<void>>();
  const places = createPlaces();
  const renewing = setInterval(() => {
    if (running.size > 0) renewClaims(deps.sql, [...running.keys()]).catch(() => undefined);
  }, RENEW_MS);

  async function takeUp(): Promise<number> {
    const claims = await claimSteps(deps.sql, places.room());
    if (claims.length === 0) return 0;
    const catalog = await loadCatalog(deps.sql);
    for (const claim of claims) {
      const turn = places.take(claim.endpointId);
      const work = carryOut(deps, claim, { ...catalog, turn }, signal).finally(() => {
        turn.end();
        running.delete(claim);
        wakeUp.wake();
      });
      running.set(claim, work);
    }
    return claims.length;
  }

  while (!signal.aborted) {
    const taken = await takeUp().catch((error: unknown) => {
      deps.logger.error(
        { err: error },
        'steps after transfers could not be claimed; retrying in 5 s',
      );
      return 0;
    });
    if (taken === 0 && !signal.aborted) await wakeUp.wait(LOOK_MS);
  }
  unlisten();
  await Promise.all(running.values());
  clearInterval(renewing);
}

interface Context extends Catalog {
  turn: StepTurn;
}

/** Takes the steps of a claimed row. Never rejects: if all else fails, the lease expires. */
async function carryOut(
  deps: AfterDeps,
  claim: ClaimedSteps,
  context: Context,
  signal: AbortSignal,
): Promise<void> {
  const { transferId } = claim;
  try {
    const again = await takeSteps(deps, claim, context, signal);
    if (again === null) await removeAfterSteps(deps.sql, [transferId]);
    else await releaseSteps(deps.sql, again.claim, again.delayMs);
  } catch (error) {
    deps.logger.error(
      { err: error, transfer_id: transferId },
      'the steps after a transfer failed with an unexpected error; retrying when the lease ends',
    );
  }
}

/**
 * Takes one step after the other. Returns null if none is left. A former leader of an EventStoreDB
 * may lack the end of the transfer, or all of it, for some seconds. Then the steps wait.
 */
async function takeSteps(
  deps: AfterDeps,
  claimed: ClaimedSteps,
  context: Context,
  signal: AbortSignal,
): Promise<Again | null> {
  const { transferId, claimId } = claimed;
  let claim = claimed;
  let known = await loadAnyTransfer(deps, transferId);
  if (known === null) {
    const creation = { stream: streamName('transfer', transferId), revision: 0 };
    const isUnknown = (await findEvent(deps.store, creation)) === null;
    return isUnknown ? null : { claim, delayMs: HELD_UP_MS };
  }
  const cause = { actor: deps.actor, correlationId: claimId };
  for (let step = nextStep(known.state); step !== null; step = nextStep(known.state)) {
    const taken = await takeStep(deps, known.state as Completed, step, claim, context, signal);
    if ('claim' in taken) return taken;
    const before: KnownTransfer = known;
    known = await untilAnswered(
      () => recordAfter(deps, transferId, taken.event, cause, before),
      signal,
    );
    claim = { ...claim, tries: 0, refusals: 0, error: null };
  }
  return isClosed(known.state) ? null : { claim, delayMs: HELD_UP_MS };
}

/** Takes one step. Returns its outcome, or when to try again. */
async function takeStep(
  deps: AfterDeps,
  transfer: Completed,
  step: AfterStep,
  claimed: ClaimedSteps,
  { endpoints, held, turn }: Context,
  signal: AbortSignal,
): Promise<Settled | Again> {
  const { source_version: version = null } = transfer;
  const file = fileOf(transfer, step, endpoints);
  if (file === null) {
    const why = 'The endpoint of the copy matches it no longer, or the account may not use it';
    const message = step === 'source' && claimed.begun ? `${why}. ${whereHidden(transfer)}` : why;
    return { event: givenUp(transfer, step, { code: 'endpoint_removed', message }) };
  }
  const { endpoint_id, paused } = file.configured;
  const claim = { ...claimed, endpointId: endpoint_id };
  if (paused || held.has(endpoint_id)) return { claim, delayMs: HELD_UP_MS };
  if (step === 'source' && version === null) {
    const message = 'The server gives no modification time of the source, so it cannot be compared';
    return { event: givenUp(transfer, step, { code: 'no_source_version', message }) };
  }
  if (!turn.moveTo(endpoint_id)) return { claim, delayMs: 0 };
  const within = AbortSignal.any([signal, AbortSignal.timeout(STEP_LIMIT_MS)]);
  try {
    if (step === 'marker') {
      const event = await writeMarker(deps.destinations, transfer, file, within);
      turn.answered(true);
      return { event };
    }
    // Afterwards, a source that is gone counts as ours. So no try may begin under a lost claim.
    const tried = await beginSourceStep(deps.durable, claim, transfer);
    if (tried === null) return { claim, delayMs: 0 };
    const { begun } = claim;
    const options = { begun, tried, version: version as string, signal: within };
    const event = await settleSource(deps.sources, transfer, file, options);
    turn.answered(true);
    return { event };
  } catch (error) {
    const begun = claim.begun || (step === 'source' && mayHaveChanged(error));
    if (signal.aborted) return { claim: { ...claim, begun }, delayMs: 0 };
    if (error instanceof FileError) turn.answered(!error.ofServer && !isNetworkFailure(error.code));
    return afterFailure(deps, { transfer, step, file, claim }, error, signal);
  }
}
