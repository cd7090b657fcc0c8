import type { TransferEvent, TransferQueued } from '../../../../domain/transfers/transfer.ts';
import type { HistoryItem, TransferHistory } from '../../../api/api-types.ts';
import { EVENT_WORDS } from '../../../api/event-words.ts';
import { useKeyNames } from '../../../api/use-key-names.ts';
import type { Loaded } from '../../../api/use-load.ts';
import { LoadState } from '../../../components/feedback/problem.tsx';
import { Actor } from '../../../components/values/actor.tsx';
import { absolute, type Zone } from '../../../components/values/instants.ts';
import { Time } from '../../../components/values/time.tsx';
import { useZone } from '../../../components/values/time-zone.tsx';
import { bytes, elapsed } from '../../../components/values/units.ts';
import { useGaps } from './gaps.ts';
import { interruption } from './interruption.ts';
import { MoreButton } from './more-button.tsx';

interface TimelineProps {
  history: Loaded<TransferHistory>;
  transferId: string;
  /** The revision whose state is shown. */
  chosen: string | undefined;
}

/**
 * Lists the events of a transfer: when, how long after the one before, who, why. Each links to the
 * state after it.
 */
export function Timeline({ history: { data, error, reload }, transferId, chosen }: TimelineProps) {
  const keyNames = useKeyNames();
  const zone = useZone();
  const events = data?.data ?? [];
  const entries = useGaps(
    events,
    events.findIndex(({ revision }) => chosen === String(revision)),
  );
  return (
    <section class="card">
      <h2>History</h2>
      <LoadState of={{ data, error, reload }} />
      <ol class="timeline">
        {entries.map((entry) => {
          if ('hidden' in entry)
            return (
              <li key={`from-${entry.start}`} class="more">
                <MoreButton
                  hidden={entry.hidden}
                  what={['event between', 'events between']}
                  onMore={entry.reveal}
                />
              </li>
            );
          const { row: event, index } = entry;
          return (
            <li
              key={event.id}
              class={event.type.replace('transfer.', '')}
              aria-current={chosen === String(event.revision) ? 'step' : undefined}
            >
              <p class="event">
                <strong>
                  {capitalized(EVENT_WORDS[event.type as TransferEvent['type']] ?? event.type)}
                </strong>{' '}
                <Gap from={events[index - 1]?.occurred_at} to={event.occurred_at} />
                <Time at={event.occurred_at} />
              </p>
              <p>{reasonOf(event, zone)}</p>
              <p class="muted">
                <code>{event.type}</code> by <Actor actor={event.actor} keyNames={keyNames} />
              </p>
              <a
                href={`/console/transfers/${transferId}?as_of=${event.revision}`}
                aria-label={`Show state after revision ${event.revision}`}
              >
                Show state
              </a>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Gap({ from, to }: { from: string | undefined; to: string }) {
  if (from === undefined) return null;
  return (
    <span class="gap number">
      +{elapsed(Date.parse(to) - Date.parse(from))}
      <span class="visually-hidden"> after the event before</span>
    </span>
  );
}

function capitalized(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns the reason or the outcome of an event; empty for an event type unknown to this page. */
function reasonOf(item: HistoryItem, zone: Zone): string {
  const event = item as unknown as TransferEvent;
  switch (event.type) {
    case 'transfer.created':
    case 'transfer.priority_changed':
      return `Priority: ${event.data.priority}.`;
    case 'transfer.queued':
      return reasonToQueue(event.data, zone);
    case 'transfer.completed':
      return `${bytes(event.data.size_bytes)} in ${elapsed(event.data.duration_ms)}.`;
    case 'transfer.failed':
      return event.data.error.message;
    case 'transfer.marker_written':
      return event.data.marker;
    case 'transfer.source_moved':
      return event.data.moved_to;
    case 'transfer.marker_failed':
    case 'transfer.source_kept':
      return event.data.reason.message;
    case 'transfer.source_deleted':
      return event.data.confirmed ? '' : 'The source was gone after an interrupted try.';
    case 'transfer.in_progress':
    case 'transfer.cancelled':
      return '';
    default:
      event satisfies never;
      return '';
  }
}

function reasonToQueue(data: TransferQueued, zone: Zone): string {
  switch (data.reason) {
    case 'admitted':
      return 'Ready for a mover.';
    case 'mover_lost':
      return `${interruption(data)}, after ${bytes(data.transferred_bytes)}.`;
    case 'retry':
      return `${data.error.message}; retry at ${absolute(data.not_before, zone)} or later.`;
  }
}
