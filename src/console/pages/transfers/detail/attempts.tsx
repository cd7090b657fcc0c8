import { useState } from 'preact/hooks';
import type {
  AttemptFigures,
  MtimeOutcome,
  TransferEvent,
  Verification,
} from '../../../../domain/transfers/transfer.ts';
import type { HistoryItem } from '../../../api/api-types.ts';
import { type Column, Table } from '../../../components/tables/table.tsx';
import { Status, type Tone } from '../../../components/values/status.tsx';
import { Time } from '../../../components/values/time.tsx';
import { bytes, elapsed, speed } from '../../../components/values/units.ts';
import { Durations } from './durations.tsx';
import { interruption } from './interruption.ts';
import { MoreButton, STEP } from './more-button.tsx';

interface Attempt {
  number: number;
  started_at: string;
  /** Null while it runs. */
  end: AttemptEnd | null;
}

type AttemptEnd = Pick<AttemptFigures, 'transferred_bytes' | 'size_bytes' | 'speed_bps'> & {
  at: string;
  tone: Tone;
  outcome: string;
  /** Why it ended, unless it completed. */
  reason?: string;
  verification?: Verification;
  mtime?: MtimeOutcome;
};

const COLUMNS: Column<Attempt>[] = [
  { heading: 'Attempt', kind: 'row', headed: true, cell: ({ number }) => number },
  {
    heading: 'Outcome',
    cell: ({ end }) =>
      end ? (
        <span>
          <Status tone={end.tone}>{end.outcome}</Status>
          {end.reason && <span class="reason">{end.reason}</span>}
          {end.verification && <Verified by={end.verification} />}
          {end.mtime && <span class="reason">{mtimeInWords(end.mtime)}</span>}
        </span>
      ) : (
        <Status tone="active">Running</Status>
      ),
  },
  { heading: 'Started', cell: ({ started_at }) => <Time at={started_at} /> },
  {
    heading: 'Duration',
    kind: 'number',
    cell: ({ started_at, end }) => end && elapsed(Date.parse(end.at) - Date.parse(started_at)),
  },
  {
    heading: 'Transferred',
    kind: 'number',
    cell: ({ end }) =>
      end &&
      bytes(end.transferred_bytes) +
        (end.size_bytes === null ? '' : ` of ${bytes(end.size_bytes)}`),
  },
  { heading: 'Speed', kind: 'number', cell: ({ end }) => end && speed(end.speed_bps) },
];

/** Of a transfer with many attempts, the latest matter, and thousands would take long to draw. */
const SHOWN = 20;

/** Lists the attempts of a transfer, from its events. */
export function Attempts({ events }: { events: HistoryItem[] }) {
  const [shown, show] = useState(SHOWN);
  const attempts = attemptsOf(events);
  if (attempts.length === 0) return null;
  const hidden = Math.max(0, attempts.length - shown);
  return (
    <section class="card">
      <h2>Attempts</h2>
      <Durations events={events} />
      {hidden > 0 && (
        <div class="actions">
          <MoreButton
            hidden={hidden}
            what={['earlier attempt', 'earlier attempts']}
            onMore={() => show(shown + STEP)}
          />
        </div>
      )}
      <Table
        caption="Attempts, oldest first"
        columns={COLUMNS}
        rows={attempts.slice(hidden)}
        id={({ number }) => number}
      />
    </section>
  );
}

/** Lists the checks that were made of a file. */
export function checksOf(verification: Verification): string {
  const { size, source_unchanged, destination_checksum, read_back } = verification;
  const checks = [
    size && 'size',
    source_unchanged && 'source unchanged',
    destination_checksum !== 'none' && `checksum of the destination (${destination_checksum})`,
    read_back && 'read back and hashed',
  ];
  return checks.filter(Boolean).join(', ');
}

function Verified({ by }: { by: Verification }) {
  return (
    <span class="reason">
      Verified: {checksOf(by)}.{by.atomic_replace && ' Replaced in one step.'}
    </span>
  );
}

function mtimeInWords(mtime: MtimeOutcome): string {
  return mtime.preserved
    ? `Modification time kept: ${mtime.at}.`
    : `Modification time not kept: ${mtime.reason}.`;
}

function attemptsOf(items: HistoryItem[]): Attempt[] {
  const attempts: Attempt[] = [];
  for (const item of items) {
    const event = item as unknown as TransferEvent;
    const last = attempts.at(-1);
    if (event.type === 'transfer.in_progress') {
      attempts.push({ number: attempts.length + 1, started_at: item.occurred_at, end: null });
    } else if (last?.end === null) {
      last.end = endOf(event, item.occurred_at);
    }
  }
  return attempts;
}

/** Returns the end of the attempt if this event is one. */
function endOf(event: TransferEvent, at: string): AttemptEnd | null {
  switch (event.type) {
    case 'transfer.queued': {
      const { data } = event;
      if (data.reason === 'admitted') return null;
      if (data.reason === 'mover_lost')
        return {
          ...data,
          at,
          tone: 'warning',
          outcome: 'Interrupted',
          reason: `${interruption(data)}. ${CONTINUES}`,
        };
      return { ...data, at, tone: 'bad', outcome: 'Failed', reason: data.error.message };
    }
    case 'transfer.completed': {
      const { data } = event;
      return {
        ...data,
        transferred_bytes: data.size_bytes,
        at,
        tone: 'good',
        outcome: 'Completed',
      };
    }
    case 'transfer.failed':
      return {
        ...event.data,
        at,
        tone: 'bad',
        outcome: 'Failed',
        reason: event.data.error.message,
      };
    default:
      return null;
  }
}

const CONTINUES = 'The next attempt continues its work.';
