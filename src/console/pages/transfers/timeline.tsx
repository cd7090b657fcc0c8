import type { TransferEvent, TransferQueued } from '../../../domain/transfer.ts';
import type { HistoryItem, TransferHistory } from '../../api/operations.ts';
import type { Loaded } from '../../api/use-load.ts';
import { ProblemNotice } from '../../components/problem.tsx';
import { Time } from '../../components/time.tsx';
import { bytes } from '../../components/units.ts';

interface TimelineProps {
  history: Loaded<TransferHistory>;
  transferId: string;
  /** The revision whose state is shown. */
  chosen: string | undefined;
}

/** Lists the events of a transfer: when, who, why. Each links to the state after it. */
export function Timeline({ history: { data, error, reload }, transferId, chosen }: TimelineProps) {
  return (
    <section class="card">
      <h2>History</h2>
      {error && <ProblemNotice error={error} retry={reload} />}
      <ol class="timeline">
        {data?.data.map((event) => (
          <li
            key={event.id}
            class={event.type.replace('transfer.', '')}
            aria-current={chosen === String(event.revision) ? 'step' : undefined}
          >
            <p class="event">
              <strong>{TITLES[event.type as TransferEvent['type']] ?? event.type}</strong>{' '}
              <Time at={event.occurred_at} />
            </p>
            <p>{reasonOf(event)}</p>
            <p class="muted">
              <code>{event.type}</code> by <code>{event.actor}</code>
            </p>
            <a
              href={`/console/transfers/${transferId}?as_of=${event.revision}`}
              aria-label={`Show state after revision ${event.revision}`}
            >
              Show state
            </a>
          </li>
        ))}
      </ol>
    </section>
  );
}

const TITLES: Record<TransferEvent['type'], string> = {
  'transfer.created': 'Created',
  'transfer.queued': 'Queued',
  'transfer.in_progress': 'Started',
  'transfer.completed': 'Completed',
  'transfer.failed': 'Failed',
  'transfer.cancelled': 'Cancelled',
};

/** Returns the reason or the outcome of an event; empty for an event type unknown to this page. */
function reasonOf(item: HistoryItem): string {
  const event = item as unknown as TransferEvent;
  switch (event.type) {
    case 'transfer.created':
      return `Priority: ${event.data.priority}.`;
    case 'transfer.queued':
      return reasonToQueue(event.data);
    case 'transfer.completed':
      return `${bytes(event.data.size_bytes)} in ${(event.data.duration_ms / 1_000).toFixed(1)} s.`;
    case 'transfer.failed':
      return event.data.error.message;
    case 'transfer.in_progress':
    case 'transfer.cancelled':
      return '';
    default:
      event satisfies never;
      return '';
  }
}

function reasonToQueue(data: TransferQueued): string {
  switch (data.reason) {
    case 'admitted':
      return 'Ready for a mover.';
    case 'mover_lost':
      return `The mover stopped or was lost after ${bytes(data.transferred_bytes)}.`;
    case 'retry':
      return `${data.error.message}; retry after ${timeOf(data.not_before)}.`;
  }
}

function timeOf(at: string): string {
  return new Date(at).toLocaleTimeString();
}
