import { reasonOf } from '../../api/error-reasons.ts';
import type { TransferSummary } from '../../api/operations.ts';
import { dayOf } from '../../components/instants.ts';
import { Status } from '../../components/status.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { useZone } from '../../components/time-zone.tsx';
import { type Overview, type Part, useOverview } from '../../overview.tsx';
import { useSession } from '../../session.tsx';
import { STATUSES, TransferState } from '../transfers/states.tsx';
import { listOf } from './checks.ts';

/** The service counts the reasons of the newest failures only. */
const REASONS_OF = 10_000;

/** Counts the transfers created today, by state and by reason of failure. */
export function Today({ summary }: { summary: NonNullable<Part<TransferSummary>> }) {
  const { today } = useOverview();
  const { account } = useSession().session;
  const zone = useZone();
  const { data } = summary;
  return (
    <>
      <section class="card" aria-labelledby="today" aria-busy={data === null}>
        <header>
          <h2 id="today">Transfers created today</h2>
          <p class="muted">
            {account}, {dayOf(today.from_date, 'start', zone)},{' '}
            {zone === 'utc' ? 'UTC' : 'local time'}
          </p>
        </header>
        <ul class="tiles">
          <li>
            <a href={listOf(today)}>
              <Status tone="neutral">All</Status> <Amount of={data?.total} />
            </a>
          </li>
          {STATUSES.map((status) => (
            <li key={status}>
              <a href={listOf(today, status)}>
                <TransferState status={status} /> <Amount of={data?.by_status[status]} />
              </a>
            </li>
          ))}
        </ul>
      </section>
      {data && data.failures.length > 0 && <Failures summary={data} today={today} />}
    </>
  );
}

function Amount({ of }: { of: number | undefined }) {
  return <strong class="number">{of === undefined ? '–' : of.toLocaleString()}</strong>;
}

function Failures({ summary, today }: { summary: TransferSummary; today: Overview['today'] }) {
  const { failures, by_status } = summary;
  const columns: Column<TransferSummary['failures'][number]>[] = [
    {
      heading: 'Reason',
      kind: 'row',
      cell: ({ code }) => (
        <span>
          <a class="file" href={listOf(today, 'failed')}>
            {reasonOf(code).label}
          </a>
          <span class="route mono">{code}</span>
        </span>
      ),
    },
    { heading: 'Transfers', kind: 'number', cell: ({ transfers }) => transfers.toLocaleString() },
    { heading: 'Advice', cell: ({ code }) => <span class="advice">{reasonOf(code).advice}</span> },
  ];
  return (
    <section class="card" aria-labelledby="failures">
      <h2 id="failures">Why transfers failed</h2>
      {by_status.failed > REASONS_OF && (
        <p class="muted">Of the newest {REASONS_OF.toLocaleString()} that failed.</p>
      )}
      <Table
        caption="Reasons of today’s failures, the most frequent first"
        columns={columns}
        rows={failures}
        id={({ code }) => code}
      />
    </section>
  );
}
