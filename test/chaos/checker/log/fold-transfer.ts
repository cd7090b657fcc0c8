import { AFTER_EVENTS, afterStep, type Outcomes, type Requested } from './after.ts';
import type { Fields, LoggedEvent } from './event.ts';

export type Status = 'pending' | 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled';

export const STATUSES: readonly Status[] = [
  'pending',
  'queued',
  'in_progress',
  'completed',
  'failed',
  'cancelled',
];

/** The facts of a transfer in every state, as `facts` of `read.transfers.state` holds them. */
export interface Facts extends Fields {
  transfer_id: string;
  account_id: string;
  file_name: string;
  source: string;
  destination: string;
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  notify_on_complete: boolean;
  retry_of: string | null;
  batch_id?: string;
  after?: Requested;
  created_at: string;
  transferred_bytes: number;
  size_bytes: number | null;
  speed_bps: number | null;
  retry_count: number;
  /** Failed attempts in a row since the first that continued after `resumed_bytes`, with it. */
  failed_in_a_row?: number;
  resumed_bytes?: number;
  error: (Fields & { code: string }) | null;
}

/** Has the form of `read.transfers.state`. */
export interface TransferState extends Fields {
  status: Status;
  facts: Facts;
  after?: Outcomes;
}

/** The states in which each event may follow: the diagram in docs/architecture.md. */
const MAY_COME: Record<string, readonly (Status | 'none')[]> = {
  'transfer.created': ['none'],
  'transfer.queued': ['pending', 'in_progress'],
  'transfer.in_progress': ['queued'],
  'transfer.completed': ['in_progress'],
  'transfer.failed': ['in_progress'],
  'transfer.cancelled': ['pending', 'queued'],
  'transfer.priority_changed': ['pending', 'queued'],
  ...Object.fromEntries(AFTER_EVENTS.map((type) => [type, ['completed'] as const])),
};

export type Step = { state: TransferState } | { problem: string };

/** Returns the state after one more event, or why the event cannot follow. */
export function foldTransfer(
  before: TransferState | null,
  { type, data, stream, metadata }: LoggedEvent,
): Step {
  const status = before?.status ?? 'none';
  if (!MAY_COME[type]?.includes(status))
    return { problem: `${type} can't follow where the state is ${status}` };
  if (before === null) return created(data, stream, metadata.account_id);
  if (metadata.account_id !== before.facts.account_id)
    return { problem: `the event is of account ${metadata.account_id}` };
  const { facts } = before;
  switch (type) {
    case 'transfer.queued':
      return queued(before, data);
    case 'transfer.in_progress': {
      const { claim_id, started_at } = data;
      const first_started_at = facts.first_started_at ?? started_at;
      return {
        state: {
          status: 'in_progress',
          claim_id,
          started_at,
          facts: { ...facts, first_started_at, error: null },
        },
      };
    }
    case 'transfer.completed': {
      const { size_bytes, speed_bps, ...outcome } = data;
      const figures = { size_bytes, speed_bps, transferred_bytes: size_bytes } as Pick<
        Facts,
        'size_bytes' | 'speed_bps'
      >;
      return {
        state: { ...outcome, status: 'completed', facts: { ...facts, ...figures, error: null } },
      };
    }
    case 'transfer.failed': {
      const { failed_at, ...known } = data;
      const attempts = (data.error as Fields | undefined)?.attempts;
      if (attempts !== facts.retry_count + 1)
        return {
          problem: `the error is of attempt ${attempts}, after ${facts.retry_count} retries`,
        };
      return { state: { status: 'failed', failed_at, facts: { ...facts, ...known } } };
    }
    case 'transfer.priority_changed':
      if (data.priority === facts.priority)
        return { problem: `the priority is ${data.priority} already` };
      return { state: { ...before, facts: { ...facts, priority: data.priority } } };
    case 'transfer.cancelled':
      return { state: { status: 'cancelled', cancelled_at: data.cancelled_at, facts } };
    default:
      return afterStep(before, type, data);
  }
}

function created(data: Fields, stream: string, account: string | null): Step {
  if (`transfer-${data.transfer_id}` !== stream)
    return { problem: `the event is of transfer ${data.transfer_id}` };
  if (data.account_id !== account)
    return { problem: `data is of account ${data.account_id}, metadata of ${account}` };
  const nothing = {
    transferred_bytes: 0,
    size_bytes: null,
    speed_bps: null,
    retry_count: 0,
    lost_in_a_row: 0,
  };
  return {
    state: {
      status: 'pending',
      facts: { ...data, ...nothing, first_started_at: null, error: null } as unknown as Facts,
    },
  };
}

function queued(before: TransferState, data: Fields): Step {
  const { facts } = before;
  const { reason, transferred_bytes, size_bytes, speed_bps } = data;
  if ((reason === 'admitted') !== (before.status === 'pending'))
    return { problem: `${reason} can't follow ${before.status}` };
  if (reason === 'admitted') return { state: { status: 'queued', not_before: null, facts } };
  const figures = { transferred_bytes, size_bytes, speed_bps } as Facts;
  if (reason === 'mover_lost') {
    const { claim_id, lost_in_a_row } = data;
    if (claim_id !== before.claim_id)
      return { problem: `claim ${claim_id} was lost, and ${before.claim_id} held the transfer` };
    return {
      state: { status: 'queued', not_before: null, facts: { ...facts, ...figures, lost_in_a_row } },
    };
  }
  if (reason !== 'retry') return { problem: `the reason ${reason} is not known` };
  const { attempt, error, not_before, failed_in_a_row, resumed_bytes } = data;
  if (attempt !== facts.retry_count + 1)
    return { problem: `attempt ${attempt} failed, after ${facts.retry_count} retries` };
  const again = { ...facts, ...figures, retry_count: attempt, lost_in_a_row: 0, error } as Facts;
  const { resumed_bytes: furthest = 0, failed_in_a_row: earlier = facts.retry_count } = facts;
  if (resumed_bytes !== undefined) {
    const inARow = Number(resumed_bytes) > furthest ? 1 : earlier + 1;
    if (Number(resumed_bytes) < furthest || failed_in_a_row !== inARow)
      return {
        problem:
          `${failed_in_a_row} attempts in a row failed with ${resumed_bytes} bytes, ` +
          `after ${earlier} with ${furthest}`,
      };
    Object.assign(again, { failed_in_a_row, resumed_bytes });
  } else if (furthest > 0) return { problem: `an attempt that had ${furthest} bytes has none` };
  return { state: { status: 'queued', not_before, facts: again } };
}

export function isEnded(status: Status): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled';
}
