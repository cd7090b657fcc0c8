/*
 * Decides how events change jobs. It has no I/O and no clock.
 */
import { type NewEvent, unknownEvent } from '../../domain/events/event.ts';
import { aggregateIdOf } from '../../domain/events/streams.ts';
import { isAfterEvent, isOfSource } from '../../domain/transfers/after.ts';
import type { TransferPhase } from '../../domain/transfers/errors.ts';
import type {
  AttemptFigures,
  Priority,
  TransferCreated,
  TransferEvent,
  TransferFailed,
  TransferQueued,
} from '../../domain/transfers/transfer.ts';

/**
 * How much earlier or later than its due time a transfer ranks because of its priority. An offset
 * in time starves no transfer: a low one that has waited long enough ranks before a new high one.
 */
export const PRIORITY_OFFSET_MS: Record<Priority, number> = {
  high: -600_000,
  normal: 0,
  low: 600_000,
};

/** The work that is left for an open transfer. */
export interface Job {
  transfer_id: string;
  account_id: string;
  status: 'pending' | 'queued' | 'in_progress';
  /** Revision of the last event that the job has seen. */
  revision: number;
  priority: Priority;
  source: string;
  destination: string;
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  claim_id: string | null;
  /** By the clock of the process that wrote the event. */
  due_at: string;
  /** Milliseconds. The job is due at most this long after it is saved, by the clock of Postgres. */
  delay: number;
  figures: AttemptFigures | null;
}

/** A transfer that has ended. */
export interface EndedTransfer {
  transferId: string;
  /** True if an attempt may have left something at the destination. */
  leftovers: boolean;
  /** True if it has ended well: its file has had its name. */
  completed: boolean;
  /** Size of that file, in bytes. Null if it is unknown, or if the transfer has not completed. */
  size: number | null;
  /** True if steps after it are left. */
  after: boolean;
  /** True if an operator has ended it while a mover worked on it. */
  aborted: boolean;
}

/** An event with its stream and revision. A stored event has both. */
export type PlacedEvent = NewEvent & { stream: string; revision: number };

/**
 * Splits events, oldest first, into the transfers that they end, the events of transfers that stay
 * open, and the ids of the transfers whose last step they record.
 */
export function splitEnded(events: PlacedEvent[]): {
  ended: EndedTransfer[];
  open: PlacedEvent[];
  settled: string[];
} {
  const ended = events.flatMap(endOf);
  const removed = new Set(ended.map(({ transferId }) => transferId));
  const open = events.filter((event) => !removed.has(aggregateIdOf(event)) && !isAfterEvent(event));
  return { ended, open, settled: events.filter(isOfSource).map(aggregateIdOf) };
}

/**
 * Returns the jobs that events of open transfers change, as they are after the last event. Ignores
 * events that a job has seen. An event without a job creates one only if it is `transfer.created`:
 * any other event is of a transfer that has ended since.
 */
export function changedJobs(known: ReadonlyMap<string, Job>, events: PlacedEvent[]): Job[] {
  const changed = new Map<string, Job>();
  for (const event of events) {
    const id = aggregateIdOf(event);
    const before = changed.get(id) ?? known.get(id) ?? null;
    if (before !== null && event.revision <= before.revision) continue;
    const after = jobAfter(before, event as TransferEvent & NewEvent, event.revision);
    if (after !== null) changed.set(id, after);
  }
  return [...changed.values()];
}

function jobAfter(job: Job | null, event: TransferEvent & NewEvent, revision: number): Job | null {
  if (event.type === 'transfer.created') return newJob(event.data, revision);
  if (job === null) return null;
  switch (event.type) {
    case 'transfer.queued':
      return queuedJob(job, event.data, revision);
    case 'transfer.in_progress':
      return { ...job, status: 'in_progress', revision, claim_id: event.data.claim_id };
    case 'transfer.priority_changed':
      return { ...job, priority: event.data.priority, revision };
    case 'transfer.completed':
    case 'transfer.failed':
    case 'transfer.cancelled':
    case 'transfer.marker_written':
    case 'transfer.marker_failed':
    case 'transfer.source_deleted':
    case 'transfer.source_moved':
    case 'transfer.source_kept':
      return job;
    default:
      return unknownEvent(event);
  }
}

function newJob(created: TransferCreated, revision: number): Job {
  const { transfer_id, account_id, priority, source, destination, created_at } = created;
  const { source_endpoint_id, destination_endpoint_id } = created;
  return {
    transfer_id,
    account_id,
    priority,
    source,
    destination,
    source_endpoint_id,
    destination_endpoint_id,
    status: 'pending',
    revision,
    claim_id: null,
    due_at: created_at,
    delay: 0,
    figures: null,
  };
}

function queuedJob(job: Job, data: TransferQueued, revision: number): Job {
  // A mover may have claimed the job while it was pending. The other reasons end a claim.
  if (data.reason === 'admitted') return { ...job, status: 'queued', revision };
  const requeued: Job = { ...job, status: 'queued', revision, claim_id: null, figures: data };
  if (data.reason === 'mover_lost') return requeued;
  const { not_before, error } = data;
  return {
    ...requeued,
    due_at: not_before,
    delay: Date.parse(not_before) - Date.parse(error.occurred_at),
  };
}

/**
 * Revision of the end after a single attempt: created, queued and in progress come before it. Each
 * change of the priority comes before it too, so such a transfer may get a needless clean-up.
 */
const END_OF_FIRST_ATTEMPT = 3;

/** Returns the transfer that an event ends, or nothing if the transfer stays open. */
function endOf(placed: PlacedEvent): EndedTransfer[] {
  const transferId = aggregateIdOf(placed);
  const event = placed as TransferEvent & PlacedEvent;
  switch (event.type) {
    case 'transfer.completed':
      // The last attempt took over the data of earlier attempts, if it could. If it found the file
      // in place, that file may be an older identical one. The data of this transfer is then still
      // beside it.
      return [
        {
          transferId,
          leftovers: event.revision > END_OF_FIRST_ATTEMPT || event.data.verification.read_back,
          completed: true,
          size: event.data.size_bytes,
          after: event.data.source_version !== undefined,
          aborted: false,
        },
      ];
    case 'transfer.failed':
      return [
        {
          transferId,
          leftovers: event.revision > END_OF_FIRST_ATTEMPT || !endedBeforeWriting(event.data),
          completed: false,
          size: null,
          after: false,
          aborted: event.data.error.code === 'aborted_by_operator',
        },
      ];
    case 'transfer.cancelled':
      // The transfer may have been queued again after an attempt.
      return [
        {
          transferId,
          leftovers: event.revision >= END_OF_FIRST_ATTEMPT,
          completed: false,
          size: null,
          after: false,
          aborted: false,
        },
      ];
    case 'transfer.created':
    case 'transfer.queued':
    case 'transfer.in_progress':
    case 'transfer.priority_changed':
    case 'transfer.marker_written':
    case 'transfer.marker_failed':
    case 'transfer.source_deleted':
    case 'transfer.source_moved':
    case 'transfer.source_kept':
      return [];
    default:
      return unknownEvent(event);
  }
}

/** Phases up to the sign-in at the destination. A clean-up after them would repeat the failure. */
const BEFORE_WRITING: TransferPhase[] = [
  'source_connect',
  'source_sign_in',
  'source_open',
  'destination_connect',
  'destination_sign_in',
];

/**
 * Returns whether the transfer failed before an attempt could write. The size is known once the
 * destination was opened, whichever connection broke later.
 */
function endedBeforeWriting({ error, size_bytes }: TransferFailed): boolean {
  return size_bytes === null && BEFORE_WRITING.includes(error.phase);
}
