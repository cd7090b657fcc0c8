import type { TransferEvent } from '../../../../domain/transfers/transfer.ts';
import type { HistoryItem } from '../../../api/api-types.ts';
import { Shares } from '../../../components/charts/shares.tsx';
import type { Tone } from '../../../components/values/status.tsx';
import { elapsed, many } from '../../../components/values/units.ts';
import { endsTransfer } from '../states.tsx';

interface Span {
  label: string;
  /** Milliseconds. */
  size: number;
  tone: Tone;
}

/** Draws how long a transfer waited, and how long each of its attempts took, from its events. */
export function Durations({ events }: { events: HistoryItem[] }) {
  const spans = spansOf(events);
  const ended = events.some(({ type }) => endsTransfer(type));
  const attempts = spans.filter(({ label }) => label !== WAITING);
  const sum = (some: Span[]) => some.reduce((total, { size }) => total + size, 0);
  const total = sum(spans);
  const moving = sum(attempts);
  return (
    <>
      <Shares
        shares={spans.map(({ label, size, tone }) => ({
          text: `${label}: ${elapsed(size)}`,
          size,
          tone,
        }))}
      />
      <p class="number">
        {elapsed(total)} {ended ? 'from creation to end' : 'since its creation'}: {elapsed(moving)}{' '}
        in {many(attempts.length, 'attempt')}, {elapsed(total - moving)} waiting
      </p>
    </>
  );
}

const WAITING = 'Waiting';

function spansOf(events: HistoryItem[]): Span[] {
  const spans: Span[] = [];
  let attempts = 0;
  for (const [index, item] of events.entries()) {
    const next = events[index + 1];
    const until = next ? Date.parse(next.occurred_at) : Date.now();
    const size = Math.max(0, until - Date.parse(item.occurred_at));
    const eventType = item.type as TransferEvent['type'];
    switch (eventType) {
      case 'transfer.created':
      case 'transfer.queued':
      case 'transfer.priority_changed':
        spans.push({ label: WAITING, size, tone: 'neutral' });
        break;
      case 'transfer.in_progress':
        attempts++;
        spans.push({ label: `Attempt ${attempts}`, size, tone: outcomeOf(next) });
        break;
      case 'transfer.completed':
      case 'transfer.failed':
      case 'transfer.cancelled':
      case 'transfer.marker_written':
      case 'transfer.marker_failed':
      case 'transfer.source_deleted':
      case 'transfer.source_moved':
      case 'transfer.source_kept':
        // What follows the end is no part of the transfer.
        return spans;
      default: {
        eventType satisfies never;
      }
    }
  }
  return spans;
}

/** How an attempt ended, by the event that follows it. A retry and a failure are bad. */
function outcomeOf(next: HistoryItem | undefined): Tone {
  if (next === undefined) return 'active';
  return next.type === 'transfer.completed' ? 'good' : 'bad';
}
