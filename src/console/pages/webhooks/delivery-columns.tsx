import type { Delivery } from '../../api/api-types.ts';
import { Strip } from '../../components/charts/strip.tsx';
import type { Column } from '../../components/tables/table.tsx';
import { distance, Time } from '../../components/values/time.tsx';
import { many } from '../../components/values/units.ts';
import { deliveryLabel, deliveryTone } from './delivery-state.tsx';

export const EVENT: Column<Delivery> = {
  heading: 'Event',
  kind: 'row',
  cell: ({ id, webhook_id, event_type, event_id }) => (
    <>
      <a class="file event-type" href={`/console/webhooks/${webhook_id}/deliveries/${id}`}>
        {event_type}
      </a>
      <span class="route mono">{event_id}</span>
    </>
  ),
};

export const LATEST: Column<Delivery>[] = [
  { heading: 'Last response', cell: lastResponse },
  { heading: 'Attempts', kind: 'number', cell: ({ attempts }) => attempts },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
];

/** Returns how the last attempt ended. */
export function lastResponse({ attempts, last_status_code, last_error }: Delivery): string {
  if (attempts === 0) return 'No attempts yet';
  return last_error ?? `HTTP ${last_status_code}`;
}

/** Deliveries in a strip. */
const IN_STRIP = 12;

/** How the latest deliveries ended, of a list that has the newest first. */
export function DeliveryStrip({ deliveries }: { deliveries: Delivery[] }) {
  const marks = deliveries
    .slice(0, IN_STRIP)
    .reverse()
    .map((delivery) => {
      const { id, status, attempts, created_at } = delivery;
      const text = [deliveryLabel(status), lastResponse(delivery), distance(created_at)].join(', ');
      const tone = status === 'pending' && attempts > 0 ? 'warning' : deliveryTone(status);
      return { id, tone, text };
    });
  return <Strip label="Latest deliveries, oldest first" marks={marks} />;
}

/** What happens to deliveries that are retried. */
export const AT_ONCE = 'Each is sent at once and gets the full retry schedule again.';

/** Confirms a retry, such as `Retrying 2 deliveries`. */
export function retrying(count: number): string {
  return `Retrying ${many(count, 'delivery', 'deliveries')}`;
}
