import { DomainError } from './errors.ts';
import { type Event, hasData } from './event.ts';
import { type AttemptFailure, type TransferError, transferError } from './transfer-errors.ts';

export const TRANSFER_STATUSES = ['pending', 'queued', 'in_progress', 'completed', 'failed', 'cancelled'] as const;
export type TransferStatus = (typeof TRANSFER_STATUSES)[number];

export const PRIORITIES = ['low', 'normal', 'high'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** As often as this a mover may vanish in a row, none having come further than the one before, until the transfer fails. */
const MOVERS_LOST_AT_MOST = 5;

/** An endpoint as it was configured when an attempt began. */
export interface EndpointVersion {
  id: string;
  revision: number;
}

/** How far an attempt came: what a replay needs to give the answer that the detail gave. */
export interface AttemptFigures {
  transferred_bytes: number;
  /** null until the source was opened. */
  size_bytes: number | null;
  /** Bits per second, averaged over the attempt; null where nothing was measured. */
  speed_bps: number | null;
}

/** What was compared with what before a transfer was called completed. */
export interface Verification {
  /** Bytes were counted by us at both ends, and the destination reports that size. */
  size: boolean;
  /** Size and modification time (or ETag) of the source were the same at the end as at the start. */
  source_unchanged: boolean;
  /** The destination's own checksum that agreed with ours. */
  destination_checksum: 'none' | 'md5' | 'crc32' | 'crc64' | 'sha256';
  /** The destination was read back and hashed. */
  read_back: boolean;
  /** The destination's name went from the old file to the new one in one step. */
  atomic_replace: boolean;
}

export interface TransferCreated {
  transfer_id: string;
  account_id: string;
  /** Last path segment of the source, percent-decoded. */
  file_name: string;
  /** Where the file is read. */
  source: string;
  /** Where the file is written: `destination_uri`, with the file name where that ended in a slash. */
  destination: string;
  source_uri: string;
  destination_uri: string;
  priority: Priority;
  notify_on_complete: boolean;
  metadata: Record<string, string>;
  /** The endpoint that matched when the transfer was created; null where none did. */
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  created_at: string;
  estimated_start: string;
}

export type TransferQueued =
  | { reason: 'admitted' }
  | ({ reason: 'retry'; error: TransferError; attempt: number; not_before: string } & AttemptFigures)
  | ({ reason: 'mover_lost'; claim_id: string; lost_in_a_row: number } & AttemptFigures);

export interface TransferStarted {
  claim_id: string;
  started_at: string;
  source_endpoint: EndpointVersion | null;
  destination_endpoint: EndpointVersion | null;
}

export interface TransferCompleted {
  completed_at: string;
  size_bytes: number;
  speed_bps: number | null;
  /** From the first start of processing to completion. */
  duration_ms: number;
  checksum_sha256: string;
  verification: Verification;
}

export type TransferFailed = { error: TransferError; failed_at: string } & AttemptFigures;

export type TransferEvent =
  | Event<'transfer.created', TransferCreated>
  | Event<'transfer.queued', TransferQueued>
  | Event<'transfer.in_progress', TransferStarted>
  | Event<'transfer.completed', TransferCompleted>
  | Event<'transfer.failed', TransferFailed>
  | Event<'transfer.cancelled', { cancelled_at: string }>;

/** What is known of a transfer in every state. */
export interface TransferFacts extends TransferCreated, AttemptFigures {
  retry_count: number;
  /** Movers that vanished in a row, none having come further than the one before. */
  lost_in_a_row: number;
  first_started_at: string | null;
  /** Why the last attempt ended, until the next one begins. */
  error: TransferError | null;
}

export type Transfer = { facts: TransferFacts } & (
  | { status: 'pending' }
  | { status: 'queued'; not_before: string | null }
  | { status: 'in_progress'; claim_id: string; started_at: string }
  | { status: 'completed'; completed_at: string; duration_ms: number; checksum_sha256: string; verification: Verification }
  | { status: 'failed'; failed_at: string }
  | { status: 'cancelled'; cancelled_at: string }
);

/** Nothing follows any more. */
export function isEnded(state: { status: string }): boolean {
  return state.status === 'completed' || state.status === 'failed' || state.status === 'cancelled';
}

export type TransferState = { status: 'none' } | Transfer;

export type TransferCommand =
  | { type: 'create'; data: TransferCreated }
  /** Takes a pending transfer into the queue. */
  | { type: 'admit' }
  | { type: 'start'; data: TransferStarted }
  | { type: 'complete'; claim_id: string; data: Omit<TransferCompleted, 'duration_ms'> }
  /** An attempt ended in an error; `retry_delays` in milliseconds, one for each retry. */
  | { type: 'fail_attempt'; claim_id: string; failure: AttemptFailure; figures: AttemptFigures; retry_delays: number[]; now: string }
  /** The lease of a claim ran out. */
  | { type: 'lose_mover'; claim_id: string; figures: AttemptFigures; now: string }
  /** The mover gives its claim back in good order, at a shutdown; it does not count as lost. */
  | { type: 'release'; claim_id: string; figures: AttemptFigures }
  | { type: 'cancel'; now: string }
  /** An operator ends a transfer that is in progress. */
  | { type: 'abort'; now: string };

export function initialState(): TransferState {
  return { status: 'none' };
}

/**
 * What follows from a command. An empty answer means that it was done already, or that the claim it
 * speaks for no longer holds; a broken rule throws a DomainError.
 */
export function decide(command: TransferCommand, state: TransferState): TransferEvent[] {
  switch (command.type) {
    case 'create':
      return state.status === 'none' ? [{ type: 'transfer.created', data: command.data }] : [];
    case 'admit':
      return state.status === 'pending' ? [{ type: 'transfer.queued', data: { reason: 'admitted' } }] : [];
    case 'start':
      return start(command.data, state);
    case 'complete':
      return holds(state, command.claim_id) ? [completed(command.data, state)] : [];
    case 'fail_attempt':
      return holds(state, command.claim_id) ? [attemptFailed(command, state)] : [];
    case 'lose_mover':
      return holds(state, command.claim_id) ? [moverLost(command, state)] : [];
    case 'release':
      return holds(state, command.claim_id) ? [queuedAgain(command, state.facts.lost_in_a_row)] : [];
    case 'cancel':
      return cancel(command.now, state);
    case 'abort':
      return abort(command.now, state);
  }
}

/** A mover that is free takes a pending transfer through the queue in one step. */
function start(data: TransferStarted, state: TransferState): TransferEvent[] {
  const admitted: TransferEvent[] = state.status === 'pending' ? [{ type: 'transfer.queued', data: { reason: 'admitted' } }] : [];
  if (state.status !== 'pending' && state.status !== 'queued') return [];
  return [...admitted, { type: 'transfer.in_progress', data }];
}

type InProgress = Extract<TransferState, { status: 'in_progress' }>;

function holds(state: TransferState, claimId: string): state is InProgress {
  return state.status === 'in_progress' && state.claim_id === claimId;
}

function completed(data: Omit<TransferCompleted, 'duration_ms'>, state: InProgress): TransferEvent {
  const startedAt = Date.parse(state.facts.first_started_at ?? state.started_at);
  return { type: 'transfer.completed', data: { ...data, duration_ms: Math.max(0, Date.parse(data.completed_at) - startedAt) } };
}

function attemptFailed(command: Extract<TransferCommand, { type: 'fail_attempt' }>, state: InProgress): TransferEvent {
  const { failure, figures, now } = command;
  const attempt = state.facts.retry_count + 1;
  const error = transferError(failure, attempt, now);
  const delay = command.retry_delays[state.facts.retry_count];
  if (!error.retryable || delay === undefined) {
    return { type: 'transfer.failed', data: { error, failed_at: now, ...figures } };
  }
  const notBefore = new Date(Date.parse(now) + delay).toISOString();
  return { type: 'transfer.queued', data: { reason: 'retry', error, attempt, not_before: notBefore, ...figures } };
}

function moverLost(command: Extract<TransferCommand, { type: 'lose_mover' }>, state: InProgress): TransferEvent {
  const { figures, now } = command;
  const moved = figures.transferred_bytes > state.facts.transferred_bytes;
  const lostInARow = moved ? 1 : state.facts.lost_in_a_row + 1;
  if (lostInARow < MOVERS_LOST_AT_MOST) return queuedAgain(command, lostInARow);
  const message = `${MOVERS_LOST_AT_MOST} movers in a row vanished while they worked on this transfer, and none came further than the one before`;
  const error = {
    ...transferError({ code: 'internal_error', message, phase: 'prepare' }, state.facts.retry_count + 1, now),
    retryable: false,
  };
  return { type: 'transfer.failed', data: { error, failed_at: now, ...figures } };
}

function queuedAgain(command: { claim_id: string; figures: AttemptFigures }, lostInARow: number): TransferEvent {
  const { claim_id, figures } = command;
  return { type: 'transfer.queued', data: { reason: 'mover_lost', claim_id, lost_in_a_row: lostInARow, ...figures } };
}

function cancel(now: string, state: TransferState): TransferEvent[] {
  if (state.status === 'none') throw notFound();
  if (state.status === 'pending' || state.status === 'queued') {
    return [{ type: 'transfer.cancelled', data: { cancelled_at: now } }];
  }
  throw new DomainError(
    'transfer_not_cancellable',
    `The transfer is ${inWords(state.status)}; only a pending or queued one can be cancelled`,
    {
      transfer_id: state.facts.transfer_id,
      current_status: state.status,
    },
  );
}

function abort(now: string, state: TransferState): TransferEvent[] {
  if (state.status === 'none') throw notFound();
  if (state.status === 'in_progress') {
    const failure: AttemptFailure = { code: 'aborted_by_operator', message: 'An operator aborted the transfer', phase: 'prepare' };
    const error = transferError(failure, state.facts.retry_count + 1, now);
    const { transferred_bytes, size_bytes, speed_bps } = state.facts;
    return [{ type: 'transfer.failed', data: { error, failed_at: now, transferred_bytes, size_bytes, speed_bps } }];
  }
  if (state.status === 'failed' && state.facts.error?.code === 'aborted_by_operator') return [];
  throw new DomainError('transfer_not_cancellable', `The transfer is ${inWords(state.status)}; only one in progress can be aborted`, {
    transfer_id: state.facts.transfer_id,
    current_status: state.status,
  });
}

function inWords(status: TransferStatus): string {
  return status === 'in_progress' ? 'in progress' : status;
}

/** What is answered where a transfer is not there, or not for who asks. */
export function notFound(): DomainError {
  return new DomainError('not_found', 'There is no such transfer');
}

const MAY_FOLLOW = new Map<string, readonly TransferState['status'][]>([
  ['transfer.created', ['none']],
  ['transfer.queued', ['pending', 'in_progress']],
  ['transfer.in_progress', ['queued']],
  ['transfer.completed', ['in_progress']],
  ['transfer.failed', ['in_progress']],
  ['transfer.cancelled', ['pending', 'queued']],
]);

/** The state after one more event. Never throws: an event that can't follow leaves the very state that was given. */
export function evolve(state: TransferState, event: Event): TransferState {
  if (!hasData(event) || !MAY_FOLLOW.get(event.type)?.includes(state.status)) return state;
  const known = event as TransferEvent;
  if (state.status === 'none') return known.type === 'transfer.created' ? created(known.data) : state;
  const { facts } = state;
  switch (known.type) {
    case 'transfer.queued':
      return queued(facts, known.data);
    case 'transfer.in_progress': {
      const { claim_id, started_at } = known.data;
      const first_started_at = facts.first_started_at ?? started_at;
      return { status: 'in_progress', claim_id, started_at, facts: { ...facts, first_started_at, error: null } };
    }
    case 'transfer.completed': {
      const { size_bytes, speed_bps, ...outcome } = known.data;
      return { status: 'completed', ...outcome, facts: { ...facts, size_bytes, speed_bps, transferred_bytes: size_bytes, error: null } };
    }
    case 'transfer.failed': {
      const { failed_at, ...known_of_it } = known.data;
      return { status: 'failed', failed_at, facts: { ...facts, ...known_of_it } };
    }
    case 'transfer.cancelled':
      return { status: 'cancelled', cancelled_at: known.data.cancelled_at, facts };
    default:
      return state;
  }
}

function created(data: TransferCreated): TransferState {
  const nothingYet = { transferred_bytes: 0, size_bytes: null, speed_bps: null, retry_count: 0, lost_in_a_row: 0 };
  return { status: 'pending', facts: { ...data, ...nothingYet, first_started_at: null, error: null } };
}

function queued(facts: TransferFacts, data: TransferQueued): TransferState {
  if (data.reason === 'admitted') return { status: 'queued', not_before: null, facts };
  const { transferred_bytes, size_bytes, speed_bps } = data;
  const figures = { transferred_bytes, size_bytes, speed_bps };
  if (data.reason === 'mover_lost') {
    return { status: 'queued', not_before: null, facts: { ...facts, ...figures, lost_in_a_row: data.lost_in_a_row } };
  }
  const { attempt, error, not_before } = data;
  return { status: 'queued', not_before, facts: { ...facts, ...figures, retry_count: attempt, lost_in_a_row: 0, error } };
}

/** Whose it is; null where there is none. */
export function accountOf(state: TransferState): string | null {
  return state.status === 'none' ? null : state.facts.account_id;
}
