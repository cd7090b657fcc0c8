import type { AuditItem } from '../../api/api-types.ts';
import { type Share, Shares } from '../../components/charts/shares.tsx';
import { absolute } from '../../components/values/instants.ts';
import { useZone } from '../../components/values/time-zone.tsx';
import { duration, many } from '../../components/values/units.ts';

const DAYS = 30;
const DAY_MS = 86_400_000;

interface OutagesProps {
  /** The newest events of the endpoint, newest first. */
  events: AuditItem[];
  /** There are no older events. */
  all: boolean;
  /** The endpoint is unreachable now. */
  isDown: boolean;
}

/**
 * Draws when an endpoint was unreachable in the last 30 days, or since the oldest event that is
 * known: of the time before, nothing is claimed.
 */
export function Outages({ events, all, isDown }: OutagesProps) {
  const zone = useZone();
  const now = Date.now();
  const oldest = events.at(-1);
  if (!oldest) return null;
  const known = Date.parse(oldest.occurred_at);
  const limit = now - DAYS * DAY_MS;
  const from = Math.max(known, limit);
  const spans = spansOf(events, isDown, from, now);
  const outages = spans.filter(({ down }) => down);
  const lasted = outages.reduce((sum, span) => sum + span.to - span.from, 0);
  const time = span(now - from) + (known > limit && all ? ' since its creation' : '');
  const shares = spans.map(
    ({ from, to, down }): Share => ({
      size: to - from,
      tone: down ? 'bad' : 'good',
      text: `${down ? 'Unreachable' : 'Not known to be unreachable'} for ${span(to - from)}, from ${absolute(new Date(from).toISOString(), zone)}`,
    }),
  );
  return (
    <>
      <Shares shares={shares} />
      <p class="number">
        {outages.length === 0
          ? `No outage in ${time}`
          : `Unreachable for ${span(lasted)} of ${time}, in ${many(outages.length, 'outage')}`}
      </p>
    </>
  );
}

interface Span {
  /** Milliseconds since 1970. */
  from: number;
  to: number;
  down: boolean;
}

function spansOf(events: AuditItem[], isDown: boolean, from: number, now: number): Span[] {
  const changes = events
    .filter(({ type }) => type in DOWN)
    .map(({ type, occurred_at }) => ({
      at: Date.parse(occurred_at),
      down: DOWN[type as keyof typeof DOWN],
    }))
    .reverse();
  const first = changes[0];
  // Before the end of an outage it was down. Without a change it always was as it is now.
  const spans: Span[] = [{ from, to: now, down: first ? !first.down : isDown }];
  for (const { at, down } of changes) {
    const last = spans.at(-1) as Span;
    if (last.down === down) continue;
    last.to = Math.max(at, from);
    spans.push({ from: last.to, to: now, down });
  }
  return spans.filter(({ from, to }) => to > from);
}

/** The changes of the connectivity, and whether the endpoint is down after them. */
const DOWN = { 'endpoint.connectivity_lost': true, 'endpoint.connectivity_restored': false };

function span(ms: number): string {
  const days = ms / DAY_MS;
  return days < 2 ? duration(ms / 1_000) : many(Math.floor(days), 'day');
}
