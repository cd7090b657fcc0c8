import type { Delivery } from '../../api/operations.ts';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';

/** Where the service stops counting deliveries. */
export const COUNTED_TO = 10_000;

/** What lists of deliveries tell of each. */
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
  { heading: 'Last answer', cell: lastAnswer },
  { heading: 'Attempts', kind: 'number', cell: ({ attempts }) => attempts },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
];

function lastAnswer({ attempts, last_status_code, last_error }: Delivery): string {
  if (attempts === 0) return 'Not tried yet';
  return last_error ?? `Answered ${last_status_code}`;
}
