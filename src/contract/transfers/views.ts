import type { After, AfterEvent, AfterReason } from '../../domain/transfers/after.ts';
import { optionsOf } from '../../domain/transfers/options.ts';
import {
  type AttemptFigures,
  endTimeOf,
  isClosed,
  isEnded,
  type Transfer,
} from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import type { AfterAnswer } from './after.ts';
import type { CreatedTransfer, LiveTransfer, TransferDetail, TransferListItem } from './answers.ts';

export function toListItem(transfer: Transfer, waiting: WaitingFor | null): TransferListItem {
  const { facts } = transfer;
  return {
    id: facts.transfer_id,
    file_name: facts.file_name,
    size_bytes: facts.size_bytes,
    status: transfer.status,
    source: facts.source,
    destination: facts.destination,
    created_at: facts.created_at,
    completed_at: completedAt(transfer),
    ended_at: endTimeOf(transfer),
    error: facts.error,
    retry_of: facts.retry_of,
    waiting_for: waiting,
  };
}

/** Returns the answer to a creation. It stays the same when the transfer changes later. */
export function toCreated({ facts }: Transfer): CreatedTransfer {
  const { transfer_id, source_uri, destination_uri, priority, created_at, estimated_start } = facts;
  return {
    id: transfer_id,
    status: 'pending',
    source_uri,
    destination_uri,
    priority,
    created_at,
    estimated_start,
  };
}

/** What the events of an open transfer do not tell. Empty for an ended one and for a past state. */
export interface Live {
  /** The current figures of a transfer in progress. */
  moving: AttemptFigures | null;
  /** Why it does not move. */
  waiting: WaitingFor | null;
  /** Why the last try of the step after it failed. */
  afterError?: AfterReason | null;
}

export function toDetail(
  transfer: Transfer,
  { moving, waiting, afterError = null }: Live = { moving: null, waiting: null },
): TransferDetail {
  const { facts, status } = transfer;
  const transferred_bytes = moving?.transferred_bytes ?? facts.transferred_bytes;
  const size_bytes = moving?.size_bytes ?? facts.size_bytes;
  return {
    id: facts.transfer_id,
    file_name: facts.file_name,
    size_bytes,
    transferred_bytes,
    progress_pct: status === 'completed' ? 100 : progress(transferred_bytes, size_bytes),
    status,
    speed_bps: moving ? moving.speed_bps : facts.speed_bps,
    source: facts.source,
    destination: facts.destination,
    checksum_sha256: transfer.status === 'completed' ? transfer.checksum_sha256 : null,
    created_at: facts.created_at,
    completed_at: completedAt(transfer),
    ended_at: endTimeOf(transfer),
    retry_count: facts.retry_count,
    error: facts.error,
    priority: facts.priority,
    metadata: facts.metadata,
    retry_of: facts.retry_of,
    batch_id: facts.batch_id ?? null,
    ...optionsOf(facts),
    waiting_for: waiting,
    ...(facts.after && { after: toAfter(transfer, facts.after, afterError) }),
  };
}

function toAfter(transfer: Transfer, requested: After, lastError: AfterReason | null): AfterAnswer {
  const { marker, source } = (transfer.status === 'completed' && transfer.after) || {};
  const reason =
    marker?.type === 'transfer.marker_failed'
      ? marker.data.reason
      : source?.type === 'transfer.source_kept'
        ? source.data.reason
        : null;
  const state = !isEnded(transfer)
    ? 'waiting'
    : !isClosed(transfer)
      ? 'pending'
      : transfer.status === 'completed' && reason === null
        ? 'done'
        : 'not_done';
  return {
    ...requested,
    state,
    marker: marker?.type === 'transfer.marker_written' ? marker.data.marker : null,
    moved_to: source?.type === 'transfer.source_moved' ? source.data.moved_to : null,
    reason: state === 'pending' ? lastError : reason,
    ended_at: isClosed(transfer) ? outcomeTime(source ?? marker) : null,
  };
}

/** Returns when a step was taken, or given up. */
function outcomeTime(outcome: AfterEvent | undefined): string | null {
  switch (outcome?.type) {
    case undefined:
      return null;
    case 'transfer.marker_written':
      return outcome.data.written_at;
    case 'transfer.marker_failed':
      return outcome.data.failed_at;
    case 'transfer.source_deleted':
      return outcome.data.deleted_at;
    case 'transfer.source_moved':
      return outcome.data.moved_at;
    case 'transfer.source_kept':
      return outcome.data.kept_at;
  }
}

function completedAt(transfer: Transfer): string | null {
  return transfer.status === 'completed' ? transfer.completed_at : null;
}

/**
 * Returns percent with two decimals, rounded down. It stays below 100 until the transfer completes.
 */
function progress(transferred: number, size: number | null): number {
  if (size === null || size === 0) return 0;
  return Math.min(99.99, Math.floor((transferred / size) * 10_000) / 100);
}

/** Returns what an event of the live stream shows of a transfer. */
export function toLive(transfer: Transfer, { moving, waiting }: Live): LiveTransfer {
  const detail = toDetail(transfer, { moving, waiting });
  const { size_bytes, transferred_bytes, speed_bps } = detail;
  const known = moving && size_bytes !== null && speed_bps !== null && speed_bps > 0;
  const seconds_left = known ? Math.ceil(((size_bytes - transferred_bytes) * 8) / speed_bps) : null;
  return { ...detail, account: transfer.facts.account_id, seconds_left };
}
