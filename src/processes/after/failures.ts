/*
 * What follows a failed step: another try, or the end of the step.
 *
 * A source that is given up is kept, and no row knows it any more. A try that was cut off may have
 * left it under a hidden name. So it gets its name back first. Until the server answers to that, the
 * row stays, and the step is tried as after an outage.
 */
import type { Logger } from 'pino';
import { FileError } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { reasonOf } from '../../domain/errors.ts';
import type { AfterEvent, AfterReason, AfterStep } from '../../domain/transfers/after.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import type { EndpointPool } from '../endpoints/pool.ts';
import { holdSignIn } from '../endpoints/sign-in-holds.ts';
import { nextTry } from './retries.ts';
import { type At, type Completed, givenUp, restoreSource, type StepFile } from './steps.ts';
import { beginSourceStep, type ClaimedSteps } from './table.ts';

/** A server in front of an object store may take five minutes to rename a source. */
export const STEP_LIMIT_MS = 600_000;

interface FailureDeps {
  sql: Sql;
  /** For what must survive a crash of Postgres. */
  durable: Sql;
  logger: Logger;
  sources: EndpointPool;
  retryDelays: number[];
}

/** A step that was tried under a claim. */
interface TriedStep {
  transfer: Completed;
  step: AfterStep;
  file: StepFile;
  claim: ClaimedSteps;
}

/** The outcome of a step. */
export interface Settled {
  event: At<AfterEvent>;
}

/** A claim that is given back, and when its steps are due again. */
export interface Again {
  claim: ClaimedSteps;
  delayMs: number;
}

/** Returns the next try after an error, or the end of a step that is given up. */
export async function afterFailure(
  deps: FailureDeps,
  tried: TriedStep,
  error: unknown,
  signal: AbortSignal,
): Promise<Settled | Again> {
  if (!(error instanceof FileError)) throw error;
  const { transfer, step, file, claim } = tried;
  const { shownCode: code, message } = error;
  if (code === 'auth_failed') await holdSignIn(deps.sql, file.configured);
  const { delayMs, ...counts } = nextTry(
    claim,
    error.ofServer || error.ofMachine,
    deps.retryDelays,
  );
  deps.logger.info(
    { transfer_id: transfer.facts.transfer_id, step, ...counts, code, reason: reasonOf(error) },
    'a step after a transfer failed',
  );
  const begun = claim.begun || (step === 'source' && mayHaveChanged(error));
  const failed = { ...claim, ...counts, begun, error: { code, message } };
  if (delayMs !== undefined) return { claim: failed, delayMs };
  if (step === 'marker' || (error.ofServer && !begun))
    return { event: givenUp(transfer, step, failed.error) };
  return keepSource(deps, transfer, file, failed, signal);
}

/**
 * Returns whether a source may be changed after an error of `dispose`. A refusal leaves it as it is,
 * and so does a server that Waybill could not connect or sign in to.
 */
export function mayHaveChanged(error: unknown): boolean {
  return !(error instanceof FileError) || (isNetworkFailure(error.code) && !error.ofServer);
}

/** Gives a source up that a try may have left under a hidden name. */
async function keepSource(
  { durable, sources }: FailureDeps,
  transfer: Completed,
  file: StepFile,
  claim: ClaimedSteps & { error: AfterReason },
  signal: AbortSignal,
): Promise<Settled | Again> {
  const tried = await beginSourceStep(durable, claim, transfer);
  if (tried === null) return { claim, delayMs: 0 };
  const within = AbortSignal.any([signal, AbortSignal.timeout(STEP_LIMIT_MS)]);
  const left = await restoreSource(sources, transfer, file, tried, within);
  if (left === null) return { event: givenUp(transfer, 'source', claim.error) };
  const { delayMs, ...counts } = nextTry(claim, true, []);
  if (!left.refused && delayMs !== undefined) return { claim: { ...claim, ...counts }, delayMs };
  const message = `${claim.error.message}. ${left.message}`;
  return { event: givenUp(transfer, 'source', { ...claim.error, message }) };
}
