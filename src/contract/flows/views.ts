import type { Flow, ListingError, RunCompleted, RunReason } from '../../domain/flows/flow.ts';
import type { TransferStatus } from '../../domain/transfers/transfer.ts';
import type { FlowAnswer, FlowFileList, FlowRunAnswer, RUN_STATUSES } from './answers.ts';

/** What the last listing of a flow found, and when the next one is due. */
export interface FlowOutlook {
  last_run_at: string | null;
  last_success_at: string | null;
  next_run_at: string | null;
  delayed_by: string | null;
  waiting_files: number;
}

/** A run as the read model has it. */
export interface ShownRun {
  run_id: string;
  batch_id: string | null;
  reason: RunReason;
  status: (typeof RUN_STATUSES)[number];
  error: ListingError | null;
  counts: RunCompleted['counts'] | null;
  bytes: number | null;
  started_at: string;
  ended_at: string | null;
}

/** A version of a file as the read model has it. */
export interface ShownFile {
  source_uri: string;
  version: string;
  run_id: string | null;
  transfer_id: string | null;
  status: TransferStatus | null;
  left_log: boolean;
  error: { code: string; message: string } | null;
  attempts: number;
  taken_at: string;
}

/** Returns a flow as clients see it. */
export function toFlow(state: Flow, outlook: FlowOutlook, runs: ShownRun[]): FlowAnswer {
  const { flow_id, name, status, source, ready, trigger, destination_uri } = state;
  const { priority, metadata, after = null, start, created_at, updated_at, failing } = state;
  return {
    id: flow_id,
    name,
    status: status as FlowAnswer['status'],
    source,
    ready: { unchanged_for: null, marker: null, ...ready },
    trigger: trigger && { every: null, cron: null, time_zone: null, ...trigger },
    destination_uri,
    priority,
    metadata,
    after,
    start,
    created_at,
    updated_at,
    ...outlook,
    failing,
    recent_runs: runs.map(toRun),
  };
}

export function toRun({ run_id, ...run }: ShownRun): FlowRunAnswer {
  const { status, reason, batch_id, error, counts, bytes, started_at, ended_at } = run;
  return { id: run_id, status, reason, batch_id, error, counts, bytes, started_at, ended_at };
}

export function toFile(file: ShownFile): FlowFileList['data'][number] {
  const { source_uri, version, run_id, transfer_id, error, attempts, taken_at } = file;
  const unseen = file.left_log ? 'removed' : 'pending';
  const own = transfer_id === null ? 'rejected' : (file.status ?? unseen);
  const status = run_id === null ? 'skipped' : own;
  return { source_uri, version, status, attempts, run_id, transfer_id, error, taken_at };
}
