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

/** The events of a transfer: when, who, why. Each leads to the state at its point. */
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
              <strong>{TITLES[event.type] ?? event.type}</strong> <Time at={event.occurred_at} />
            </p>
            <p>{reasonOf(event)}</p>
            <p class="muted">
              <code>{event.type}</code> by <code>{event.actor}</code>
            </p>
            <a
              href={`/console/transfers/${transferId}?as_of=${event.revision}`}
              aria-label={`State at this point: after revision ${event.revision}`}
            >
              State at this point
            </a>
          </li>
        ))}
      </ol>
    </section>
  );
}

const TITLES: Record<string, string> = {
  'transfer.created': 'Created',
  'transfer.queued': 'Queued',
  'transfer.in_progress': 'Started',
  'transfer.completed': 'Completed',
  'transfer.failed': 'Failed',
  'transfer.cancelled': 'Cancelled',
};

/** Why it happened, or what came of it. */
function reasonOf({ type, data }: HistoryItem): string {
  const { reason, error, not_before, transferred_bytes, size_bytes, duration_ms, priority } = data as Record<string, unknown>;
  const { message } = (error ?? {}) as { message?: string };
  if (type === 'transfer.created') return `With ${priority} priority.`;
  if (type === 'transfer.completed') return `${bytes(size_bytes as number)} in ${((duration_ms as number) / 1_000).toFixed(1)} s.`;
  if (type === 'transfer.failed') return message ?? '';
  if (type !== 'transfer.queued') return '';
  if (reason === 'retry') return `${message}; the next attempt is not before ${new Date(not_before as string).toLocaleTimeString()}.`;
  if (reason === 'mover_lost') return `The process that moved it vanished, or was stopped, after ${bytes(transferred_bytes as number)}.`;
  return 'It waits for a mover.';
}
