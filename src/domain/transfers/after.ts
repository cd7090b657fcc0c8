import { fieldError } from '../errors.ts';
import type { Event } from '../events/event.ts';
import type { TransferErrorCode } from './errors.ts';

/*
 * What a transfer does after it has completed. First the marker, an empty file beside the
 * destination. Then the source, if it is still the file that was copied. Each step has one outcome,
 * which is an event. A transfer that fails or is cancelled takes no step.
 */

export type SourceAction = 'keep' | 'delete' | MoveSource;

export interface MoveSource {
  /** A folder below that of the source. Ends in a slash. */
  move_to: string;
}

export interface After {
  source: SourceAction;
  /** Added to the name of the destination. Null for no marker. */
  destination_marker: string | null;
}

export function removesSource(after: After | null | undefined): boolean {
  return after != null && after.source !== 'keep';
}

/** Throws if sources are moved into folders that the same listing finds. */
export function refuseMovesInto(recursive: boolean, after: After | null | undefined): void {
  if (recursive && typeof after?.source === 'object')
    throw fieldError(
      'after.source.move_to',
      'cannot be used with recursive, which would find the moved files again: leave out one of them',
    );
}

/** Why a step was not taken. */
export interface AfterReason {
  code: TransferErrorCode | 'no_source_version' | 'marker_failed';
  message: string;
}

/** A file as a server describes it. */
export interface DescribedFile {
  size_bytes: number;
  /** Modification time, ETag or version, whichever the protocol has. */
  version: string | null;
}

export interface SourceTaken {
  /** The file that was copied and is deleted or moved now. */
  source_file: DescribedFile;
  /**
   * False if an earlier try was interrupted, and the source was gone afterwards. So the try
   * succeeded, unless something else removed the source at that moment.
   */
  confirmed: boolean;
}

export interface SourceKept {
  reason: AfterReason;
  /** The file that replaced the copied one. Null for any other reason than `source_changed`. */
  found: DescribedFile | null;
  kept_at: string;
}

export type MarkerEvent =
  | Event<'transfer.marker_written', { marker: string; written_at: string }>
  | Event<'transfer.marker_failed', { marker: string; reason: AfterReason; failed_at: string }>;

export type SourceEvent =
  | Event<'transfer.source_deleted', SourceTaken & { deleted_at: string }>
  | Event<'transfer.source_moved', SourceTaken & { moved_to: string; moved_at: string }>
  | Event<'transfer.source_kept', SourceKept>;

export type AfterEvent = MarkerEvent | SourceEvent;

/** The outcomes so far. */
export interface AfterOutcome {
  marker?: MarkerEvent;
  source?: SourceEvent;
}

export type AfterStep = keyof AfterOutcome;

const STEP_OF: Record<AfterEvent['type'], AfterStep> = {
  'transfer.marker_written': 'marker',
  'transfer.marker_failed': 'marker',
  'transfer.source_deleted': 'source',
  'transfer.source_moved': 'source',
  'transfer.source_kept': 'source',
};

export function isAfterEvent(event: Event): event is AfterEvent {
  return Object.hasOwn(STEP_OF, event.type);
}

/** Returns true for an event after which no other follows in its stream. */
export function isOfSource({ type }: { type: string }): boolean {
  return STEP_OF[type as AfterEvent['type']] === 'source';
}

/** What these rules read of the state of a transfer. */
interface TransferWithSteps {
  status: string;
  facts?: { after?: After };
  after?: AfterOutcome;
}

/** Returns the next step of a transfer. Null if none is left, or if it has not completed. */
export function nextStep(transfer: TransferWithSteps): AfterStep | null {
  if (transfer.status !== 'completed' || transfer.facts?.after === undefined) return null;
  const { source, destination_marker } = transfer.facts.after;
  const { after = {} } = transfer;
  if (destination_marker !== null && after.marker === undefined) return 'marker';
  return source !== 'keep' && after.source === undefined ? 'source' : null;
}

/** Returns the outcomes after one more event. Null if it cannot follow. */
export function withOutcome(transfer: TransferWithSteps, event: AfterEvent): AfterOutcome | null {
  if (transfer.status !== 'completed' || nextStep(transfer) !== STEP_OF[event.type]) return null;
  const { type, data } = event;
  return { ...transfer.after, [STEP_OF[type]]: { type, data } };
}

/**
 * Returns the events that record the outcome of a step. None if it is recorded already. Without its
 * marker, the source stays: other programs may wait for the marker.
 */
export function recordOutcome(
  transfer: TransferWithSteps,
  event: AfterEvent,
  now: string,
): AfterEvent[] {
  if (withOutcome(transfer, event) === null) return [];
  const keeps = transfer.facts?.after?.source === 'keep';
  if (event.type !== 'transfer.marker_failed' || keeps) return [event];
  const message = `The marker could not be written: ${event.data.reason.message}`;
  const reason = { code: 'marker_failed', message } as const;
  return [event, { type: 'transfer.source_kept', data: { reason, found: null, kept_at: now } }];
}
