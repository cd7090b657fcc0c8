import { type Event, eventGuard, unknownEvent } from '../events/event.ts';
import { type After, type AfterEvent, type AfterOutcome, nextStep, withOutcome } from './after.ts';
import type { TransferError } from './errors.ts';
import type { TransferOptions } from './options.ts';

export const TRANSFER_STATUSES = [
  'pending',
  'queued',
  'in_progress',
  'completed',
  'failed',
  'cancelled',
] as const;
export type TransferStatus = (typeof TRANSFER_STATUSES)[number];

export const PRIORITIES = ['low', 'normal', 'high'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** Orders of lists: newest first, or oldest first; then by id. */
export const SORT_ORDERS = ['-created_at', 'created_at'] as const;
export type SortOrder = (typeof SORT_ORDERS)[number];

/** An endpoint as it was configured when an attempt began. */
export interface EndpointVersion {
  id: string;
  revision: number;
}

/** How far the attempts of a transfer came that continued its file. Absent if none did. */
export interface Continued {
  /** Failed attempts in a row since the first that continued after `resumed_bytes`, with it. */
  failed_in_a_row: number;
  /** The most bytes from the start that an attempt found at the destination. */
  resumed_bytes: number;
}

/** How far an attempt came. The events hold it, so a replay rebuilds the same transfer detail. */
export interface AttemptFigures {
  transferred_bytes: number;
  /** null until the source was opened. */
  size_bytes: number | null;
  /** Bits per second, averaged over the attempt; null if nothing was measured. */
  speed_bps: number | null;
}

/** The checks that were made before the transfer was reported as completed. */
export interface Verification {
  /** The mover counted the bytes at both ends, and the destination reports the same size. */
  size: boolean;
  /** The source had the same size and modification time (or ETag) at the end as at the start. */
  source_unchanged: boolean;
  /** The kind of checksum that the destination computed and that matched ours. */
  destination_checksum: 'none' | 'md5' | 'crc32' | 'crc64' | 'sha256';
  /** The destination was read back and hashed. */
  read_back: boolean;
  /** One atomic step replaced the old file with the new one under the destination's name. */
  atomic_replace: boolean;
}

/**
 * Whether the destination has the modification time of the source. `at` is null if that has none.
 */
export type MtimeOutcome =
  | { preserved: true; at: string }
  | { preserved: false; at: string | null; reason: string };

export interface TransferCreated extends TransferOptions {
  transfer_id: string;
  account_id: string;
  /** Last path segment of the source, percent-decoded. */
  file_name: string;
  /** URI from which the file is read. */
  source: string;
  /** URI of the written file: `destination_uri`, plus the file name if that ends in a slash. */
  destination: string;
  source_uri: string;
  destination_uri: string;
  priority: Priority;
  notify_on_complete: boolean;
  metadata: Record<string, string>;
  /** The endpoint that matched when the transfer was created; null if none did. */
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  /** The failed or cancelled transfer that it repeats; null if it repeats none. */
  retry_of: string | null;
  /** The batch that it belongs to. Absent if it belongs to none. */
  batch_id?: string;
  /** Of a flow: the version that the listing showed. Absent for any other transfer. */
  listed_version?: string;
  /** What to do once it has completed. Absent for nothing. */
  after?: After;
  created_at: string;
  estimated_start: string;
}

/**
 * Why a mover gave a transfer back, which is no failure: its process stopped, its lease ran out while
 * it could not renew it, an endpoint or its credentials had changed, the server accepted no further
 * connection, or its process had too many open files or no memory.
 */
export type GivenBack =
  | 'shutdown'
  | 'lease_lost'
  | 'endpoint_changed'
  | 'no_connection'
  | 'out_of_resources';

export type TransferQueued =
  | { reason: 'admitted' }
  | ({
      reason: 'retry';
      error: TransferError;
      attempt: number;
      not_before: string;
    } & Partial<Continued> &
      AttemptFigures)
  | ({
      reason: 'mover_lost';
      claim_id: string;
      lost_in_a_row: number;
      /** Absent if the mover vanished, and in events of versions before this field. */
      given_back?: GivenBack;
    } & AttemptFigures);

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
  /**
   * Modification time, ETag or version of the source when it was copied. Present if the transfer
   * has steps to take now (`after`).
   */
  source_version?: string | null;
  /** Only with `preserve_mtime`. */
  mtime?: MtimeOutcome;
}

export type TransferFailed = { error: TransferError; failed_at: string } & AttemptFigures;

export type TransferEvent =
  | Event<'transfer.created', TransferCreated>
  | Event<'transfer.queued', TransferQueued>
  | Event<'transfer.in_progress', TransferStarted>
  | Event<'transfer.completed', TransferCompleted>
  | Event<'transfer.failed', TransferFailed>
  | Event<'transfer.cancelled', { cancelled_at: string }>
  | Event<'transfer.priority_changed', { priority: Priority; changed_at: string }>
  | AfterEvent;

/**
 * The facts that a transfer has in every state. The endpoints are those of the last attempt that
 * found one, and until then those of the creation.
 */
export interface TransferFacts extends TransferCreated, AttemptFigures, Partial<Continued> {
  retry_count: number;
  /** Consecutive lost movers, none of which came further than the one before. */
  lost_in_a_row: number;
  first_started_at: string | null;
  /** Why the last attempt ended, until the next one begins. */
  error: TransferError | null;
}

export type Transfer = { facts: TransferFacts } & (
  | { status: 'pending' }
  | { status: 'queued'; not_before: string | null }
  | { status: 'in_progress'; claim_id: string; started_at: string }
  | {
      status: 'completed';
      completed_at: string;
      duration_ms: number;
      checksum_sha256: string;
      verification: Verification;
      source_version?: string | null;
      /** What the steps after it have done. */
      after?: AfterOutcome;
      mtime?: MtimeOutcome;
    }
  | { status: 'failed'; failed_at: string }
  | { status: 'cancelled'; cancelled_at: string }
);

export type TransferState = { status: 'none' } | Transfer;

/**
 * The state machine: for each event, the states in which it may follow and the state after it. Null
 * if the state stays.
 */
const TRANSITIONS: Record<
  TransferEvent['type'],
  { from: readonly TransferState['status'][]; to: TransferStatus | null }
> = {
  'transfer.created': { from: ['none'], to: 'pending' },
  'transfer.queued': { from: ['pending', 'in_progress'], to: 'queued' },
  'transfer.in_progress': { from: ['queued'], to: 'in_progress' },
  'transfer.completed': { from: ['in_progress'], to: 'completed' },
  'transfer.failed': { from: ['in_progress'], to: 'failed' },
  'transfer.cancelled': { from: ['pending', 'queued'], to: 'cancelled' },
  'transfer.priority_changed': { from: ['pending', 'queued'], to: null },
  'transfer.marker_written': { from: ['completed'], to: null },
  'transfer.marker_failed': { from: ['completed'], to: null },
  'transfer.source_deleted': { from: ['completed'], to: null },
  'transfer.source_moved': { from: ['completed'], to: null },
  'transfer.source_kept': { from: ['completed'], to: null },
};

const isTransferEvent = eventGuard<TransferEvent>(TRANSITIONS);

/** Returns true if a transfer with this status has ended, so that its status stays. */
export function isEnded({ status }: { status: TransferState['status'] }): boolean {
  return !Object.values(TRANSITIONS).some(({ from, to }) => to !== null && from.includes(status));
}

export const OPEN_STATUSES = TRANSFER_STATUSES.filter((status) => !isEnded({ status }));
export const ENDED_STATUSES = TRANSFER_STATUSES.filter((status) => isEnded({ status }));

/** Returns when the transfer completed, failed or was cancelled. Null while it is open. */
export function endTimeOf(transfer: Transfer): string | null {
  switch (transfer.status) {
    case 'completed':
      return transfer.completed_at;
    case 'failed':
      return transfer.failed_at;
    case 'cancelled':
      return transfer.cancelled_at;
    default:
      return null;
  }
}

/** Returns true if an operator has ended the transfer. */
export function isAborted(transfer: TransferState): boolean {
  return transfer.status === 'failed' && transfer.facts.error?.code === 'aborted_by_operator';
}

/** Returns true if no event may follow: the transfer has ended, and no step is left after it. */
export function isClosed(transfer: TransferState): boolean {
  return isEnded(transfer) && nextStep(transfer) === null;
}

/** Returns true if an event of this type ends its transfer. */
export function endsTransfer(type: string): boolean {
  return Object.entries(TRANSITIONS).some(
    ([name, { to }]) => name === type && to !== null && isEnded({ status: to }),
  );
}

/** Returns the state after one more event, or the same state if the event cannot follow. */
export function evolveTransfer(state: TransferState, event: Event): TransferState {
  if (!isTransferEvent(event) || !TRANSITIONS[event.type].from.includes(state.status)) return state;
  if (state.status === 'none')
    return event.type === 'transfer.created' ? created(event.data) : state;
  const { facts } = state;
  switch (event.type) {
    case 'transfer.created':
      return state;
    case 'transfer.queued':
      return queued(facts, event.data);
    case 'transfer.in_progress': {
      const { claim_id, started_at, source_endpoint, destination_endpoint } = event.data;
      const endpoints = {
        source_endpoint_id: source_endpoint?.id ?? facts.source_endpoint_id,
        destination_endpoint_id: destination_endpoint?.id ?? facts.destination_endpoint_id,
      };
      const first_started_at = facts.first_started_at ?? started_at;
      return {
        status: 'in_progress',
        facts: { ...facts, ...endpoints, first_started_at, error: null },
        claim_id,
        started_at,
      };
    }
    case 'transfer.completed': {
      const { size_bytes, speed_bps, ...outcome } = event.data;
      return {
        status: 'completed',
        facts: { ...facts, size_bytes, speed_bps, transferred_bytes: size_bytes, error: null },
        ...outcome,
      };
    }
    case 'transfer.failed': {
      const { failed_at, ...outcome } = event.data;
      return { status: 'failed', facts: { ...facts, ...outcome }, failed_at };
    }
    case 'transfer.cancelled':
      return { status: 'cancelled', facts, cancelled_at: event.data.cancelled_at };
    case 'transfer.priority_changed':
      return { ...state, facts: { ...facts, priority: event.data.priority } };
    case 'transfer.marker_written':
    case 'transfer.marker_failed':
    case 'transfer.source_deleted':
    case 'transfer.source_moved':
    case 'transfer.source_kept': {
      const after = withOutcome(state, event);
      return after === null || state.status !== 'completed' ? state : { ...state, after };
    }
    default:
      return unknownEvent(event);
  }
}

function created(data: TransferCreated): TransferState {
  const nothingYet = {
    transferred_bytes: 0,
    size_bytes: null,
    speed_bps: null,
    retry_count: 0,
    lost_in_a_row: 0,
  };
  const { retry_of, batch_id } = data;
  // First, and the facts first in each state: the read model looks for both in the text of a row.
  const links = batch_id === undefined ? { retry_of } : { retry_of, batch_id };
  return {
    status: 'pending',
    facts: { ...links, ...data, ...nothingYet, first_started_at: null, error: null },
  };
}

function queued(facts: TransferFacts, data: TransferQueued): TransferState {
  if (data.reason === 'admitted') return { status: 'queued', facts, not_before: null };
  const { transferred_bytes, size_bytes, speed_bps } = data;
  const figures = { transferred_bytes, size_bytes, speed_bps };
  if (data.reason === 'mover_lost') {
    return {
      status: 'queued',
      facts: { ...facts, ...figures, lost_in_a_row: data.lost_in_a_row },
      not_before: null,
    };
  }
  const { attempt, error, not_before, failed_in_a_row, resumed_bytes } = data;
  const continued = resumed_bytes === undefined ? {} : { failed_in_a_row, resumed_bytes };
  return {
    status: 'queued',
    facts: { ...facts, ...figures, ...continued, retry_count: attempt, lost_in_a_row: 0, error },
    not_before,
  };
}
