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
  const total = sizeOf(spans);
  const moving = sizeOf(attempts);
  return (
    <>
      <Shares
        shares={drawn(spans).map(({ label, size, tone }) => ({
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
/** A bar of more parts than that shows no more, and takes long to draw. */
const PARTS = 200;

/** Returns the spans to draw. Neighbours of many are drawn as one part that waits, and one that moves. */
function drawn(spans: Span[]): Span[] {
  const each = Math.ceil(spans.length / PARTS);
  if (each <= 1) return spans;
  const parts: Span[] = [];
  // Twice, because two spans make an attempt: one that waits, and one that moves.
  for (let from = 0; from < spans.length; from += 2 * each) {
    const some = spans.slice(from, from + 2 * each);
    const moving = some.filter(({ label }) => label !== WAITING);
    const waited = some.filter(({ label }) => label === WAITING);
    const [first, last] = [moving[0], moving.at(-1)];
    parts.push({ label: WAITING, size: sizeOf(waited), tone: 'neutral' });
    if (first && last)
      parts.push({
        label: `${first.label} to ${last.label.toLowerCase()}`,
        size: sizeOf(moving),
        tone: last.tone,
      });
  }
  return parts;
}

const sizeOf = (spans: Span[]): number => spans.reduce((total, { size }) => total + size, 0);

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
