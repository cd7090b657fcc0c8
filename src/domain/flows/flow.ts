import { createHash } from 'node:crypto';
import type { Event } from '../events/event.ts';
import type { After } from '../transfers/after.ts';
import type { Priority } from '../transfers/transfer.ts';
import type { FlowTrigger } from './trigger.ts';

/*
 * A flow takes the files of a folder again and again: each version of a file once. A run of it is a
 * batch, whose items are the versions that the run takes. So the streams of its batches say what
 * was taken, and the stream of the flow says which batches these are. decider.ts has the rules.
 *
 * A scheduled run that finds nothing has no event. A requested one has `flow.run_empty`.
 */

export const FLOW_STATUSES = ['active', 'paused', 'removed'] as const;
export type FlowStatus = (typeof FLOW_STATUSES)[number];

/** The folder that a flow looks at. */
export interface FlowSource {
  /** Ends in a slash. */
  uri: string;
  pattern: string;
  exclude: string[];
  recursive: boolean;
}

/** When a file is ready: if it did not change for a while, or if a marker file is beside it. */
export type FlowReady = { unchanged_for: string } | { marker: string };

/** The settings that the owner of a flow may change. */
export interface FlowSettings {
  name: string;
  source: FlowSource;
  ready: FlowReady;
  /** Null for a flow that runs only on request. */
  trigger: FlowTrigger | null;
  /** A template (template.ts). */
  destination_uri: string;
  priority: Priority;
  metadata: Record<string, string>;
  /** What follows the copy of each file. Nothing if absent or null. */
  after?: After | null;
}

export const FLOW_STARTS = ['now', 'new_only'] as const;
/** `new_only` skips the versions that are in the folder when the flow is created. */
export type FlowStart = (typeof FLOW_STARTS)[number];

export interface FlowCreated extends FlowSettings {
  flow_id: string;
  account_id: string;
  /** A flow that is not enabled begins as paused. */
  enabled: boolean;
  start: FlowStart;
  created_at: string;
}

/** A file that a `new_only` flow does not take. */
export interface SkippedFile {
  source_uri: string;
  version: string;
}

/**
 * A page of skipped files, of about 32 KiB (src/processes/flows/run.ts). A page without files and
 * without `through` follows a change of what is listed: the listing begins again.
 */
export interface FilesSkipped {
  files: SkippedFile[];
  /** Where an interrupted listing continues. */
  through: string | null;
  last: boolean;
  skipped_at: string;
}

export const RUN_REASONS = ['schedule', 'request'] as const;
export type RunReason = (typeof RUN_REASONS)[number];

export interface RunStarted {
  run_id: string;
  /** The batch with the files that the run takes. Its id derives from that of the run. */
  batch_id: string;
  reason: RunReason;
  started_at: string;
}

/** Why a folder of a listing could not be listed. */
export interface ListingError {
  code: string;
  message: string;
  /** The folder that could not be listed, relative to the folder of the flow. */
  folder: string;
}

export interface RunCompleted {
  flow_id: string;
  name: string;
  run_id: string;
  batch_id: string;
  status: 'completed' | 'completed_with_failures' | 'cancelled';
  /** Files by their outcome. `failed` includes files that cannot become transfers. */
  counts: { files: number; completed: number; failed: number; cancelled: number };
  /** Bytes of the completed files. */
  bytes: number;
  started_at: string;
  ended_at: string;
}

export interface RunFailed {
  flow_id: string;
  name: string;
  run_id: string;
  error: ListingError;
  failed_at: string;
}

export interface FlowRecovered {
  flow_id: string;
  name: string;
  failed_since: string;
  recovered_at: string;
}

export type FlowEvent =
  | Event<'flow.created', FlowCreated>
  /** Holds only the settings that changed. */
  | Event<'flow.updated', Partial<FlowSettings> & { updated_at: string }>
  | Event<'flow.paused', { paused_at: string }>
  | Event<'flow.resumed', { resumed_at: string }>
  | Event<'flow.removed', { removed_at: string }>
  | Event<'flow.files_skipped', FilesSkipped>
  | Event<'flow.run_requested', { run_id: string; requested_at: string }>
  /** A requested run took nothing. */
  | Event<'flow.run_empty', { run_id: string; error: ListingError | null; ended_at: string }>
  /** A run takes files. */
  | Event<'flow.run_started', RunStarted>
  /** All files of the run are in its batch. */
  | Event<'flow.run_listed', { run_id: string; listed_at: string }>
  | Event<'flow.run_completed', RunCompleted>
  /** A listing failed, and the one before did not, or for another reason. */
  | Event<'flow.run_failed', RunFailed>
  /** A listing succeeded after one that failed. */
  | Event<'flow.recovered', FlowRecovered>;

/** A run whose files have not all ended. */
export interface OpenRun extends RunStarted {
  listed: boolean;
}

export interface Flow extends Omit<FlowCreated, 'enabled'> {
  status: FlowStatus;
  /** The revision of its stream. A decision names the revision that it was made on. */
  revision: number;
  updated_at: string;
  /** A time before which the trigger counts no run: its creation, resumption or last change. */
  scheduled_from: string;
  /** What a `new_only` flow has skipped. Null when it is done, or for any other flow. */
  skipping: { through: string | null } | null;
  requested: { run_id: string; requested_at: string } | null;
  open_runs: OpenRun[];
  failing: { error: ListingError; since: string } | null;
}

/** A flow at a revision of its stream. The read model shows the files of all runs up to there. */
export interface ShownFlow {
  state: Flow;
  revision: number;
  position: bigint;
}

export type FlowState = { status: 'none' } | Flow;

export type FlowCommand =
  | { type: 'create'; data: FlowCreated }
  | { type: 'update'; changes: Partial<FlowSettings>; now: string }
  | { type: 'pause' | 'resume' | 'remove'; now: string }
  | { type: 'request_run'; run_id: string; now: string }
  /** `seen` is the revision on which the listing decided what to skip, or to take. */
  | { type: 'skip_files'; seen: number; page: FilesSkipped }
  | { type: 'start_run'; seen: number; data: RunStarted }
  | { type: 'end_listing'; run_id: string; now: string }
  | { type: 'complete_run'; run_id: string; outcome: RunOutcome }
  /** How a listing ended. A listing that takes nothing has a run id too. */
  | { type: 'note_listing'; error: ListingError | null; run_id: string; now: string };

/** How the batch of a run ended. */
export type RunOutcome = Pick<RunCompleted, 'status' | 'counts' | 'bytes' | 'ended_at'>;

/** Returns the id of the batch of a run. So a run that is continued finds its batch. */
export function batchOfRun(runId: string): string {
  return runId.replace(/^run_/, 'bat_');
}

/** Returns a name of fixed length for a version of a file. URIs are too long for an index. */
export function fileKey(sourceUri: string, version: string): string {
  return createHash('sha256').update(`${sourceUri}\n${version}`).digest('base64url');
}
