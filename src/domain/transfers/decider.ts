import { DomainError, type DomainErrorCode, notFound } from '../errors.ts';
import type { Decider } from '../events/decider.ts';
import { type AfterEvent, recordOutcome } from './after.ts';
import { type AttemptFailure, transferError } from './errors.ts';
import {
  type AttemptFigures,
  evolveTransfer,
  type GivenBack,
  isAborted,
  type Priority,
  type Transfer,
  type TransferCompleted,
  type TransferCreated,
  type TransferEvent,
  type TransferStarted,
  type TransferState,
  type TransferStatus,
} from './transfer.ts';

/** Consecutive lost movers, none of which made progress, after which the transfer fails. */
const MAX_MOVERS_LOST = 5;
/** Retries of a transfer after which it fails, even if each attempt comes further. */
const MAX_RETRIES = 1_000;

export type TransferCommand =
  | { type: 'create'; data: TransferCreated }
  /** Of an item whose batch was cancelled before it became a transfer. */
  | { type: 'create_cancelled'; data: TransferCreated; now: string }
  /** Moves a pending transfer into the queue. */
  | { type: 'admit' }
  | { type: 'start'; data: TransferStarted }
  | { type: 'complete'; claim_id: string; data: Omit<TransferCompleted, 'duration_ms'> }
  /**
   * Ends an attempt with an error. `retry_delays` has milliseconds, one entry for each retry in a
   * row that comes no further.
   */
  | {
      type: 'fail_attempt';
      claim_id: string;
      failure: AttemptFailure;
      figures: AttemptFigures;
      /** Bytes from the start that the destination had when it was opened. */
      resumed_bytes: number;
      retry_delays: number[];
      now: string;
    }
  /**
   * Ends an attempt because the lease of its claim expired. `committing` is what a mover was giving
   * its name: the destination may have it. Null if none came that far.
   */
  | {
      type: 'lose_mover';
      claim_id: string;
      figures: AttemptFigures;
      committing: { size: number; sha256: string } | null;
      now: string;
    }
  /** Gives the transfer back to the queue. The mover does not count as lost. */
  | { type: 'release'; claim_id: string; figures: AttemptFigures; given_back: GivenBack }
  /** Records what a step after the transfer has done. */
  | { type: 'record_after'; event: AfterEvent; now: string }
  | { type: 'cancel'; now: string }
  | { type: 'set_priority'; priority: Priority; now: string }
  /**
   * Ends a transfer in progress on behalf of an operator. `figures` say how far it is; null if
   * that is unknown.
   */
  | { type: 'abort'; now: string; figures: AttemptFigures | null };

/** What clients change in a transfer after its creation, and the statuses that allow it. */
export const CHANGES = {
  retry: ['failed', 'cancelled'],
  cancel: ['pending', 'queued'],
  set_priority: ['pending', 'queued'],
} as const satisfies Record<string, TransferStatus[]>;
export type Change = keyof typeof CHANGES;

function allows(change: Change, { status }: Transfer): boolean {
  return (CHANGES[change] as readonly TransferStatus[]).includes(status);
}

function initialState(): TransferState {
  return { status: 'none' };
}

/** Returns no event if the work is already done, or if the command's claim no longer holds. */
function decide(command: TransferCommand, state: TransferState): TransferEvent[] {
  switch (command.type) {
    case 'create':
      return state.status === 'none' ? [{ type: 'transfer.created', data: command.data }] : [];
    case 'create_cancelled':
      return state.status === 'none'
        ? [
            { type: 'transfer.created', data: command.data },
            { type: 'transfer.cancelled', data: { cancelled_at: command.now } },
          ]
        : [];
    case 'admit':
      return state.status === 'pending'
        ? [{ type: 'transfer.queued', data: { reason: 'admitted' } }]
        : [];
    case 'start':
      return start(command.data, state);
    case 'complete':
      return holds(state, command.claim_id) ? [completed(command.data, state)] : [];
    case 'fail_attempt':
      return holds(state, command.claim_id) ? [attemptFailed(command, state)] : [];
    case 'lose_mover':
      return holds(state, command.claim_id) ? [moverLost(command, state)] : [];
    case 'release':
      return holds(state, command.claim_id)
        ? [queuedAgain(command, state.facts.lost_in_a_row, command.given_back)]
        : [];
    case 'record_after':
      return state.status === 'none' ? [] : recordOutcome(state, command.event, command.now);
    case 'cancel':
      return cancel(command.now, state);
    case 'set_priority':
      return setPriority(command, state);
    case 'abort':
      return abort(command, state);
  }
}

/** Starts an attempt. A free mover takes a pending transfer through the queue in one step. */
function start(data: TransferStarted, state: TransferState): TransferEvent[] {
  const admitted: TransferEvent[] =
    state.status === 'pending' ? [{ type: 'transfer.queued', data: { reason: 'admitted' } }] : [];
  if (state.status !== 'pending' && state.status !== 'queued') return [];
  return [...admitted, { type: 'transfer.in_progress', data }];
}

type InProgress = Extract<TransferState, { status: 'in_progress' }>;

function holds(state: TransferState, claimId: string): state is InProgress {
  return state.status === 'in_progress' && state.claim_id === claimId;
}

function completed(
  { source_version, ...data }: Omit<TransferCompleted, 'duration_ms'>,
  state: InProgress,
): TransferEvent {
  const startedAt = Date.parse(state.facts.first_started_at ?? state.started_at);
  return {
    type: 'transfer.completed',
    data: {
      ...data,
      duration_ms: Math.max(0, Date.parse(data.completed_at) - startedAt),
      // Only the steps after it need this.
      ...(state.facts.after && { source_version: source_version ?? null }),
    },
  };
}

function attemptFailed(
  command: Extract<TransferCommand, { type: 'fail_attempt' }>,
  state: InProgress,
): TransferEvent {
  const { failure, figures, now } = command;
  const { retry_count, failed_in_a_row = retry_count, resumed_bytes: furthest = 0 } = state.facts;
  const attempt = retry_count + 1;
  const error = transferError(failure, attempt, now);
  // Only what the destination still had proves progress. It cannot rise without an end.
  const resumed = Math.max(furthest, command.resumed_bytes);
  const inARow = resumed > furthest ? 1 : failed_in_a_row + 1;
  const delay = command.retry_delays[inARow - 1];
  if (!error.retryable || delay === undefined || attempt > MAX_RETRIES) {
    return { type: 'transfer.failed', data: { error, failed_at: now, ...figures } };
  }
  const notBefore = new Date(Date.parse(now) + delay).toISOString();
  return {
    type: 'transfer.queued',
    data: {
      reason: 'retry',
      error,
      attempt,
      not_before: notBefore,
      ...(resumed > 0 && { failed_in_a_row: inARow, resumed_bytes: resumed }),
      ...figures,
    },
  };
}

function moverLost(
  command: Extract<TransferCommand, { type: 'lose_mover' }>,
  state: InProgress,
): TransferEvent {
  const { figures, committing, now } = command;
  const moved = figures.transferred_bytes > state.facts.transferred_bytes;
  const lostInARow = moved ? 1 : state.facts.lost_in_a_row + 1;
  if (lostInARow < MAX_MOVERS_LOST) return queuedAgain(command, lostInARow);
  const vanished =
    `${MAX_MOVERS_LOST} movers in a row vanished while they worked on this transfer, ` +
    'and none came further than the one before';
  const failure: AttemptFailure = committing
    ? { code: 'internal_error', message: `${vanished}. ${mayBeThere(committing)}`, phase: 'commit' }
    : { code: 'internal_error', message: vanished, phase: 'prepare' };
  const error = {
    ...transferError(failure, state.facts.retry_count + 1, now),
    retryable: false,
  };
  return { type: 'transfer.failed', data: { error, failed_at: now, ...figures } };
}

function mayBeThere({ size, sha256 }: { size: number; sha256: string }): string {
  return (
    'The file may be complete at the destination, because a mover had begun to give it its name. ' +
    `Check whether a file of ${size} bytes with the SHA-256 ${sha256} is there`
  );
}

function queuedAgain(
  command: { claim_id: string; figures: AttemptFigures },
  lostInARow: number,
  givenBack?: GivenBack,
): TransferEvent {
  const { claim_id, figures } = command;
  return {
    type: 'transfer.queued',
    data: {
      reason: 'mover_lost',
      claim_id,
      lost_in_a_row: lostInARow,
      ...(givenBack && { given_back: givenBack }),
      ...figures,
    },
  };
}

function cancel(now: string, state: TransferState): TransferEvent[] {
  if (state.status === 'none') throw notFound('transfer');
  if (allows('cancel', state)) return [{ type: 'transfer.cancelled', data: { cancelled_at: now } }];
  throw inWrongState(
    'transfer_not_cancellable',
    state,
    'only a pending or queued one can be cancelled',
  );
}

function setPriority(
  { priority, now }: Extract<TransferCommand, { type: 'set_priority' }>,
  state: TransferState,
): TransferEvent[] {
  if (state.status === 'none') throw notFound('transfer');
  if (!allows('set_priority', state))
    throw inWrongState(
      'priority_not_changeable',
      state,
      'only a pending or queued one can get another priority',
    );
  if (state.facts.priority === priority) return [];
  return [{ type: 'transfer.priority_changed', data: { priority, changed_at: now } }];
}

/** Throws `transfer_not_retryable` unless the transfer has failed or was cancelled. */
export function assertRetryable(transfer: Transfer): void {
  if (allows('retry', transfer)) return;
  throw inWrongState(
    'transfer_not_retryable',
    transfer,
    'only a failed or cancelled one can be retried',
  );
}

function abort(
  { now, figures }: { now: string; figures: AttemptFigures | null },
  state: TransferState,
): TransferEvent[] {
  if (state.status === 'none') throw notFound('transfer');
  if (state.status === 'in_progress') {
    const failure: AttemptFailure = {
      code: 'aborted_by_operator',
      message: 'An operator aborted the transfer',
      phase: 'prepare',
    };
    const error = transferError(failure, state.facts.retry_count + 1, now);
    const { facts } = state;
    const { transferred_bytes, speed_bps } = figures ?? facts;
    const size_bytes = figures?.size_bytes ?? facts.size_bytes;
    return [
      {
        type: 'transfer.failed',
        data: { error, failed_at: now, transferred_bytes, size_bytes, speed_bps },
      },
    ];
  }
  if (isAborted(state)) return [];
  throw inWrongState('transfer_not_cancellable', state, 'only one in progress can be aborted');
}

/**
 * Creates the error for a command that the state of a transfer forbids. `rule` says what may be.
 */
function inWrongState(code: DomainErrorCode, { status, facts }: Transfer, rule: string) {
  const inWords = status === 'in_progress' ? 'in progress' : status;
  return new DomainError(code, `The transfer is ${inWords}; ${rule}`, {
    transfer_id: facts.transfer_id,
    current_status: status,
  });
}

function accountOf(state: TransferState): string | null {
  return state.status === 'none' ? null : state.facts.account_id;
}

export const transferDecider: Decider<TransferState, TransferCommand, TransferEvent> = {
  initialState,
  decide,
  evolve: evolveTransfer,
  accountOf,
};
