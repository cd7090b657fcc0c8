import { notFound } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { isId } from '../domain/ids.ts';
import type { AfterEvent } from '../domain/transfers/after.ts';
import { type TransferCommand, transferDecider } from '../domain/transfers/decider.ts';
import type { AttemptFailure } from '../domain/transfers/errors.ts';
import type {
  AttemptFigures,
  EndpointVersion,
  GivenBack,
  MtimeOutcome,
  Priority,
  Transfer,
  TransferState,
  Verification,
} from '../domain/transfers/transfer.ts';
import type { CommandDeps } from './deps.ts';
import {
  type Cause,
  type Handled,
  type HandleOptions,
  handle,
  load,
  ofRequest,
  type Timed,
} from './handle.ts';

/** A transfer as it was loaded, for the first try of a command. */
export type KnownTransfer = NonNullable<HandleOptions<TransferState>['known']> & {
  state: Transfer;
};

/** Loads a transfer of an account. Throws `not_found`. */
export async function loadTransfer(
  deps: Pick<CommandDeps, 'store'>,
  accountId: string,
  transferId: string,
): Promise<KnownTransfer> {
  const known = isId('txr', transferId) ? await loadAnyTransfer(deps, transferId) : null;
  if (known?.state.facts.account_id !== accountId) throw notFound('transfer');
  return known;
}

/** Loads a transfer of any account. Returns null if the log has none. */
export async function loadAnyTransfer(
  { store }: Pick<CommandDeps, 'store'>,
  transferId: string,
): Promise<KnownTransfer | null> {
  const { state, ...known } = await load(
    store,
    transferDecider,
    streamName('transfer', transferId),
  );
  return state.status === 'none' ? null : { state, ...known };
}

/**
 * Cancels a transfer. Throws `not_found`, or `transfer_not_cancellable` if it is in progress or has
 * ended.
 */
export function cancelTransfer(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  cause: Cause,
  known?: KnownTransfer,
): Promise<Handled<Transfer>> {
  return changeTransfer(
    deps,
    transferId,
    (now) => ({ type: 'cancel', now }),
    cause,
    known && { known },
  );
}

/**
 * Changes the priority of a transfer. Throws `not_found`, or `priority_not_changeable` unless it is
 * pending or queued.
 */
export function setPriority(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  priority: Priority,
  cause: Cause,
): Promise<Handled<Transfer>> {
  return changeTransfer(
    deps,
    transferId,
    (now) => ({ type: 'set_priority', priority, now }),
    cause,
    { unless: ofRequest(cause) },
  );
}

/**
 * Ends a transfer in progress as failed, with the last figures that its mover noted. Does nothing
 * if an operator already aborted it. Throws `not_found`, or `transfer_not_cancellable` in any other
 * state.
 */
export async function abortTransfer(
  deps: CommandDeps,
  transferId: string,
  cause: Cause,
): Promise<Handled<Transfer>> {
  const figures = await deps.progressOf(transferId);
  return changeTransfer(deps, transferId, (now) => ({ type: 'abort', now, figures }), cause);
}

export function admitTransfer(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  cause: Cause,
): Promise<Handled<Transfer>> {
  return changeTransfer(deps, transferId, { type: 'admit' }, cause, { remember: true });
}

export interface StartAttempt {
  claimId: string;
  source: EndpointVersion | null;
  destination: EndpointVersion | null;
}

/**
 * Starts an attempt under a claim. The claim holds if the returned state is in progress and names
 * that claim.
 */
export function startTransfer(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  start: StartAttempt,
  cause: Cause,
): Promise<Handled<Transfer>> {
  const command = (now: string): TransferCommand => {
    const data = {
      claim_id: start.claimId,
      started_at: now,
      source_endpoint: start.source,
      destination_endpoint: start.destination,
    };
    return { type: 'start', data };
  };
  return changeTransfer(deps, transferId, command, cause);
}

type LoseMover = Extract<TransferCommand, { type: 'lose_mover' }>;

export type Outcome =
  | {
      type: 'completed';
      sizeBytes: number;
      speedBps: number | null;
      checksumSha256: string;
      verification: Verification;
      /** Of the source when it was copied: modification time, ETag or version. */
      sourceVersion?: string | null;
      mtime?: MtimeOutcome;
    }
  | {
      type: 'failed';
      failure: AttemptFailure;
      figures: AttemptFigures;
      /** Bytes from the start that the destination had when it was opened. 0 by default. */
      resumedBytes?: number;
      retryDelays: number[];
    }
  /** The mover gives the transfer back to the queue. */
  | { type: 'released'; figures: AttemptFigures; why: GivenBack }
  /** The lease of the claim expired. */
  | ({ type: 'mover_lost' } & Pick<LoseMover, 'figures' | 'committing'>);

/**
 * Ends an attempt. Changes nothing if the claim no longer holds. `started` is the stream as it was
 * when the attempt began.
 */
export function endAttempt(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  claimId: string,
  outcome: Outcome,
  cause: Cause,
  started?: Handled<Transfer>,
): Promise<Handled<Transfer>> {
  return changeTransfer(
    deps,
    transferId,
    (now) => toCommand(claimId, outcome, now),
    cause,
    started && { known: started },
  );
}

function toCommand(claim_id: string, outcome: Outcome, now: string): TransferCommand {
  switch (outcome.type) {
    case 'completed': {
      const { sizeBytes, speedBps, checksumSha256, verification, mtime } = outcome;
      const { sourceVersion = null } = outcome;
      const data = {
        completed_at: now,
        size_bytes: sizeBytes,
        speed_bps: speedBps,
        checksum_sha256: checksumSha256,
        verification,
        source_version: sourceVersion,
        ...(mtime && { mtime }),
      };
      return { type: 'complete', claim_id, data };
    }
    case 'failed':
      return {
        type: 'fail_attempt',
        claim_id,
        failure: outcome.failure,
        figures: outcome.figures,
        resumed_bytes: outcome.resumedBytes ?? 0,
        retry_delays: outcome.retryDelays,
        now,
      };
    case 'released':
      return { type: 'release', claim_id, figures: outcome.figures, given_back: outcome.why };
    case 'mover_lost':
      return { ...outcome, type: 'lose_mover', claim_id, now };
  }
}

/** Records what a step after a transfer has done, once. */
export function recordAfter(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  event: (now: string) => AfterEvent,
  cause: Cause,
  known: KnownTransfer,
): Promise<Handled<Transfer>> {
  return changeTransfer(
    deps,
    transferId,
    (now) => ({ type: 'record_after', event: event(now), now }),
    cause,
    { known },
  );
}

/**
 * Loads a transfer, carries out a command and appends what follows. Throws `not_found` if it then
 * has no event, and what the decider throws.
 */
export async function changeTransfer(
  deps: Pick<CommandDeps, 'store'>,
  transferId: string,
  command: Timed<TransferCommand>,
  cause: Cause,
  options: HandleOptions<TransferState> = {},
): Promise<Handled<Transfer>> {
  const stream = streamName('transfer', transferId);
  const { state, ...handled } = await handle(
    deps.store,
    transferDecider,
    stream,
    command,
    cause,
    options,
  );
  if (state.status === 'none') throw notFound('transfer');
  return { state, ...handled };
}
