import type { Delivery } from '../../api/operations.ts';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';

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

/** Confirms a retry, such as `Retrying 2 deliveries`. */
export function retrying(count: number): string {
  return `Retrying ${count.toLocaleString()} ${count === 1 ? 'delivery' : 'deliveries'}`;
}
