import type { Delivery } from '../../api/api-types.ts';
import { Status, type Tone } from '../../components/values/status.tsx';

export type DeliveryStatus = Delivery['status'];

const STATES: Record<DeliveryStatus, { label: string; tone: Tone }> = {
  pending: { label: 'Pending', tone: 'active' },
  delivered: { label: 'Delivered', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
};

export const DELIVERY_STATUSES = Object.keys(STATES) as DeliveryStatus[];

export function deliveryLabel(status: DeliveryStatus): string {
  return STATES[status].label;
}

export function deliveryTone(status: DeliveryStatus): Tone {
  return STATES[status].tone;
}

export function DeliveryState({ status }: { status: DeliveryStatus }) {
  const { label, tone } = STATES[status];
  return <Status tone={tone}>{label}</Status>;
}
