import type { Batch } from '../../domain/batches/batch.ts';
import { optionsOf } from '../../domain/transfers/options.ts';
import type { TransferStatus } from '../../domain/transfers/transfer.ts';
import type { BatchAnswer } from './answers.ts';

/** What the transfers of a batch show. */
export interface BatchProgress {
  transfers: Record<TransferStatus, number>;
  bytes: number;
  completedBytes: number;
}

const NOTHING_MOVED: BatchProgress = {
  transfers: { pending: 0, queued: 0, in_progress: 0, completed: 0, failed: 0, cancelled: 0 },
  bytes: 0,
  completedBytes: 0,
};

/** Returns a batch as clients see it. By default, none of its transfers has left `pending`. */
export function toBatch(
  batch: Batch,
  progress: BatchProgress = NOTHING_MOVED,
  failing: BatchAnswer['failing'] = null,
): BatchAnswer {
  const { batch_id, status, source, priority, notify_on_complete, metadata, after } = batch;
  const { created_at, ended_at } = batch;
  return {
    id: batch_id,
    status,
    folder: folderOf(source),
    retry_of: source.type === 'retry' ? source.batch_id : null,
    flow_id: source.type === 'flow' ? source.flow_id : null,
    priority,
    notify_on_complete,
    metadata,
    ...(after && { after }),
    ...optionsOf(batch),
    failing,
    counts: countsOf(batch, progress.transfers),
    bytes: { total: progress.bytes, completed: progress.completedBytes },
    created_at,
    ended_at,
  };
}

/**
 * An item whose transfer the read model does not show yet is pending. After the end of the batch,
 * it has left the log by retention.
 */
function countsOf(
  { items, rejected, ended_at }: Batch,
  transfers: BatchProgress['transfers'],
): BatchAnswer['counts'] {
  const shown = Object.values(transfers).reduce((sum, number) => sum + number, 0);
  const unseen = ended_at === null ? Math.max(0, items - rejected - shown) : 0;
  const pending = transfers.pending + unseen;
  return { items, ...transfers, pending, failed: transfers.failed + rejected, rejected };
}

function folderOf(source: Batch['source']): BatchAnswer['folder'] {
  if (source.type !== 'folder') return null;
  const { type: _, ...folder } = source;
  return folder;
}
