import { DomainError, notFound } from '../errors.ts';
import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard, unknownEvent } from '../events/event.ts';
import type { After } from '../transfers/after.ts';
import type { CommonOptions, TransferOptions } from '../transfers/options.ts';
import type { Priority } from '../transfers/transfer.ts';

/*
 * A batch is many transfers that were asked for at once: a list of items, the files of a folder, or
 * the failed items of another batch. Its stream has the items in pages. Each item becomes exactly
 * one transfer, whose id derives from the batch and the place of the item (items.ts), or was
 * rejected with a reason.
 */

export const BATCH_STATUSES = [
  'creating',
  'open',
  'completed',
  'completed_with_failures',
  'cancelled',
] as const;
export type BatchStatus = (typeof BATCH_STATUSES)[number];

/** Files that the listing of a folder yields at most. */
export const MAX_FILES = 100_000;

/** A folder whose files become items. */
export interface BatchFolder {
  source_uri: string;
  /** Ends in a slash. The paths below the source folder are kept. */
  destination_uri: string;
  pattern: string;
  recursive: boolean;
  exclude: string[];
}

/** Where the items come from. */
export type BatchSource =
  | { type: 'items' }
  | ({ type: 'folder' } & BatchFolder)
  /** What failed in another batch. */
  | { type: 'retry'; batch_id: string }
  /** The files that a run of a flow takes. */
  | { type: 'flow'; flow_id: string; run_id: string };

export interface BatchCreated extends CommonOptions {
  batch_id: string;
  account_id: string;
  source: BatchSource;
  /** The values of items that have none of their own. */
  priority: Priority;
  metadata: Record<string, string>;
  notify_on_complete: boolean;
  /** What each transfer does once it has completed. Absent for nothing. */
  after?: After;
  created_at: string;
}

/** An item that becomes a transfer. */
export interface BatchItem extends TransferOptions {
  source_uri: string;
  destination_uri: string;
  /** Place in `routes` of the page. */
  route: number;
  priority?: Priority;
  metadata?: Record<string, string>;
  /** The failed transfer that it repeats. */
  retry_of?: string;
  /** Of a flow: the version of the file that it takes. */
  version?: string;
}

/** An item that cannot become a transfer. */
export interface RejectedItem {
  source_uri: string;
  error: { code: string; message: string };
  /** As in `BatchItem`. */
  version?: string;
}

/** The endpoints that matched when the page was listed. */
export interface BatchRoute {
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
}

/** A page of items. `PAGE_BYTES` in items.ts limits it. */
export interface BatchListed {
  /** Number of items in the pages before. */
  first: number;
  routes: BatchRoute[];
  items: (BatchItem | RejectedItem)[];
  /** Where an interrupted listing continues: all before it is in this page or an earlier one. */
  through: string | null;
  /** True for the last page. */
  last: boolean;
  listed_at: string;
  /** When a mover is likely to start the transfers of this page. */
  estimated_start: string;
}

/** The items of a batch that has ended, by their outcome. `failed` includes rejected items. */
export interface BatchTotals {
  items: number;
  completed: number;
  failed: number;
  cancelled: number;
}

export interface BatchCompleted {
  batch_id: string;
  status: Exclude<BatchStatus, 'creating' | 'open'>;
  counts: BatchTotals;
  /** Bytes of the completed transfers. */
  bytes: number;
  created_at: string;
  ended_at: string;
}

export type BatchEvent =
  | Event<'batch.created', BatchCreated>
  | Event<'batch.listed', BatchListed>
  /** Every item has its transfer. */
  | Event<'batch.opened', { opened_at: string }>
  | Event<'batch.cancelled', { cancelled_at: string }>
  /** Every transfer has ended. */
  | Event<'batch.completed', BatchCompleted>;

export interface Batch extends BatchCreated {
  status: BatchStatus;
  /** Items listed so far, and how many of them were rejected. */
  items: number;
  rejected: number;
  /** True if no further page follows. */
  listed: boolean;
  through: string | null;
  opened_at: string | null;
  cancelled_at: string | null;
  ended_at: string | null;
}

export type BatchState = { status: 'none' } | Batch;

export type BatchCommand =
  /** `pages` has all items of a batch that lists nothing. */
  | { type: 'create'; data: BatchCreated; pages: BatchListed[] }
  | { type: 'list'; page: BatchListed }
  | { type: 'open'; now: string }
  | { type: 'cancel'; now: string }
  /** `ended` counts the transfers that have ended, by status. */
  | {
      type: 'complete';
      ended: Record<'completed' | 'failed' | 'cancelled', number>;
      bytes: number;
      now: string;
    };

export function isRejected(item: BatchItem | RejectedItem): item is RejectedItem {
  return 'error' in item;
}

function initialState(): BatchState {
  return { status: 'none' };
}

/** Returns no event if the work is already done, or if another process was first. */
function decide(command: BatchCommand, state: BatchState): BatchEvent[] {
  if (command.type === 'create') return state.status === 'none' ? created(command) : [];
  if (state.status === 'none') throw notFound('batch');
  switch (command.type) {
    case 'list':
      return state.status === 'creating' && !state.listed && command.page.first === state.items
        ? [{ type: 'batch.listed', data: command.page }]
        : [];
    case 'open':
      return state.status === 'creating' && state.listed
        ? [{ type: 'batch.opened', data: { opened_at: command.now } }]
        : [];
    case 'cancel':
      return cancelled(command.now, state);
    case 'complete':
      return completed(command, state);
  }
}

function created({ data, pages }: Extract<BatchCommand, { type: 'create' }>): BatchEvent[] {
  return [
    { type: 'batch.created', data },
    ...pages.map((page): BatchEvent => ({ type: 'batch.listed', data: page })),
  ];
}

/** Returns no event for a cancelled batch that has not ended: its transfers may wait again. */
function cancelled(now: string, { status, batch_id, ended_at }: Batch): BatchEvent[] {
  if (ended_at !== null)
    throw new DomainError(
      'batch_not_cancellable',
      `The batch ${batch_id} has ended, so it cannot be cancelled`,
      { current_status: status },
    );
  return status === 'cancelled' ? [] : [{ type: 'batch.cancelled', data: { cancelled_at: now } }];
}

function completed(
  { ended, bytes, now }: Extract<BatchCommand, { type: 'complete' }>,
  state: Batch,
): BatchEvent[] {
  const { batch_id, items, rejected, created_at } = state;
  const all = ended.completed + ended.failed + ended.cancelled === items - rejected;
  if (state.ended_at !== null || state.status === 'creating' || !all) return [];
  const counts = { items, ...ended, failed: ended.failed + rejected };
  const whole = counts.completed === items ? 'completed' : 'completed_with_failures';
  const status = state.cancelled_at === null ? whole : 'cancelled';
  const data = { batch_id, status, counts, bytes, created_at, ended_at: now } as const;
  return [{ type: 'batch.completed', data }];
}

const isBatchEvent = eventGuard<BatchEvent>({
  'batch.created': true,
  'batch.listed': true,
  'batch.opened': true,
  'batch.cancelled': true,
  'batch.completed': true,
});

function evolve(state: BatchState, event: Event): BatchState {
  if (!isBatchEvent(event)) return state;
  if (state.status === 'none')
    return event.type === 'batch.created' ? { ...event.data, ...NOTHING_YET } : state;
  if (state.ended_at !== null) return state;
  switch (event.type) {
    case 'batch.created':
      return state;
    case 'batch.listed': {
      const { items, through, last } = event.data;
      return {
        ...state,
        items: state.items + items.length,
        rejected: state.rejected + items.filter(isRejected).length,
        through,
        listed: last,
      };
    }
    case 'batch.opened':
      return { ...state, status: 'open', opened_at: event.data.opened_at };
    case 'batch.cancelled':
      return { ...state, status: 'cancelled', cancelled_at: event.data.cancelled_at };
    case 'batch.completed':
      return { ...state, status: event.data.status, ended_at: event.data.ended_at };
    default:
      return unknownEvent(event);
  }
}

const NOTHING_YET = {
  status: 'creating',
  items: 0,
  rejected: 0,
  listed: false,
  through: null,
  opened_at: null,
  cancelled_at: null,
  ended_at: null,
} as const;

function accountOf(state: BatchState): string | null {
  return state.status === 'none' ? null : state.account_id;
}

export const batchDecider: Decider<BatchState, BatchCommand, BatchEvent> = {
  initialState,
  decide,
  evolve,
  accountOf,
};
