import type { StoredEvent } from '../../domain/event.ts';
import type { AttemptFigures, Transfer } from '../../domain/transfer.ts';
import type { CreatedTransfer, HistoryItem, TransferDetail, TransferListItem } from './schemas.ts';

export function toListItem(transfer: Transfer): TransferListItem {
  const { transfer_id, file_name, size_bytes, source, destination, created_at } = transfer.facts;
  return {
    id: transfer_id,
    file_name,
    size_bytes,
    status: transfer.status,
    source,
    destination,
    created_at,
    completed_at: completedAt(transfer),
  };
}

/** The answer to a creation, which stays the same whatever has become of the transfer since. */
export function toCreated({ facts }: Transfer): CreatedTransfer {
  const { transfer_id, source_uri, destination_uri, priority, created_at, estimated_start } = facts;
  return { id: transfer_id, status: 'pending', source_uri, destination_uri, priority, created_at, estimated_start };
}

/** `moving`: how far a transfer in progress is at this moment. */
export function toDetail(transfer: Transfer, moving: AttemptFigures | null): TransferDetail {
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
    retry_count: facts.retry_count,
    error: facts.error,
    priority: facts.priority,
    metadata: facts.metadata,
  };
}

function completedAt(transfer: Transfer): string | null {
  return transfer.status === 'completed' ? transfer.completed_at : null;
}

/** Percent with two decimals, rounded down; below 100 while anything is left to do, be it only the proof. */
function progress(transferred: number, size: number | null): number {
  if (size === null || size === 0) return 0;
  return Math.min(99.99, Math.floor((transferred / size) * 10_000) / 100);
}

export function toHistoryItem({ id, type, revision, position, metadata, data }: StoredEvent): HistoryItem {
  const { occurred_at, actor } = metadata;
  return { id, type, revision, position: String(position), occurred_at, actor, data: data as HistoryItem['data'] };
}
