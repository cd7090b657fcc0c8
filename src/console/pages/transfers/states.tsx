import type { BulkAction, TransferDetail } from '../../api/api-types.ts';
import { Status, type Tone } from '../../components/values/status.tsx';

export type TransferStatus = TransferDetail['status'];

/** `ended`: the state is final. */
const STATES: Record<TransferStatus, { label: string; tone: Tone; ended: boolean }> = {
  pending: { label: 'Pending', tone: 'neutral', ended: false },
  queued: { label: 'Queued', tone: 'neutral', ended: false },
  in_progress: { label: 'In progress', tone: 'active', ended: false },
  completed: { label: 'Completed', tone: 'good', ended: true },
  failed: { label: 'Failed', tone: 'bad', ended: true },
  cancelled: { label: 'Cancelled', tone: 'warning', ended: true },
};

export const STATUSES = Object.keys(STATES) as TransferStatus[];

export function labelOf(status: TransferStatus): string {
  return STATES[status].label;
}

export function toneOf(status: TransferStatus): Tone {
  return STATES[status].tone;
}

export function TransferState({ status }: { status: TransferStatus }) {
  const { label, tone } = STATES[status];
  return <Status tone={tone}>{label}</Status>;
}

/** The states that allow an action. The service decides; this says what to expect and to offer. */
export const CHANGEABLE: Record<BulkAction, TransferStatus[]> = {
  retry: ['failed', 'cancelled'],
  cancel: ['pending', 'queued'],
  set_priority: ['pending', 'queued'],
};

export function hasEnded(status: TransferStatus): boolean {
  return STATES[status].ended;
}

/** Returns true if an event of this type ends its transfer. Those of later steps may follow. */
export function endsTransfer(type: string): boolean {
  return STATUSES.some((status) => hasEnded(status) && type === `transfer.${status}`);
}
