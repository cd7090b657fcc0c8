import { RECENT_HOURS } from '../../../domain/attention.ts';
import type { TransferSummary } from '../../api/api-types.ts';
import { reasonOf } from '../../api/error-reasons.ts';
import { COUNTED_FAILURES } from '../../api/limits.ts';
import { type Column, Table } from '../../components/tables/table.tsx';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Name } from '../../components/values/names.tsx';
import { Time } from '../../components/values/time.tsx';
import { type Overview, type Part, useOverview } from '../../overview.tsx';
import { useSession } from '../../session.tsx';
import { StateTiles } from '../transfers/state-tiles.tsx';
import { listOf } from './checks.ts';
import { Hours } from './hours.tsx';

/** Counts the recent transfers by state and hour, and the failed ones by endpoint and by reason. */
export function Recent({ summary }: { summary: NonNullable<Part<TransferSummary>> }) {
  const { recent } = useOverview();
  const { account } = useSession().session;
  const { data } = summary;
  return (
    <>
      <section class="card" aria-labelledby="recent" aria-busy={data === null}>
        <header>
          <h2 id="recent">Transfers of the last {RECENT_HOURS} hours</h2>
          <p class="muted">
            {account}, created since <Time at={recent.from_date} />
          </p>
        </header>
        <StateTiles
          total={data?.total}
          counts={data?.by_status}
          listOf={(status) => listOf(recent, status && { status })}
        />
        <Hours />
      </section>
      {data && data.failures.length > 0 && <Failures summary={data} recent={recent} />}
    </>
  );
}

interface FailuresProps {
  summary: TransferSummary;
  recent: Overview['recent'];
}

function Failures({ summary, recent }: FailuresProps) {
  // The service counts the endpoints and reasons of the newest failures only.
  const newest = summary.by_status.failed > COUNTED_FAILURES && (
    <p class="muted">Of the newest {COUNTED_FAILURES.toLocaleString('en')} that failed.</p>
  );
  return (
    <>
      {summary.failures_by_endpoint.length > 0 && (
        <section class="card" aria-labelledby="failed-at">
          <h2 id="failed-at">Where transfers failed</h2>
          {newest}
          <Table
            caption="Endpoints of these failures, the most frequent first"
            columns={endpointColumns(recent)}
            rows={summary.failures_by_endpoint}
            id={({ endpoint_id }) => endpoint_id}
          />
        </section>
      )}
      <section class="card" aria-labelledby="failures">
        <h2 id="failures">Why transfers failed</h2>
        {newest}
        <Table
          caption="Reasons of these failures, the most frequent first"
          columns={reasonColumns(recent)}
          rows={summary.failures}
          id={({ code }) => code}
        />
      </section>
    </>
  );
}

type Counted = Omit<TransferSummary['failures'][number], 'code'>;

const TRANSFERS: Column<Counted> = {
  heading: 'Transfers',
  kind: 'number',
  cell: ({ transfers }) => transfers.toLocaleString('en'),
};

const TIMES: Column<Counted>[] = [
  { heading: 'First failure', cell: ({ first_failed_at }) => <Time at={first_failed_at} /> },
  { heading: 'Latest failure', cell: ({ last_failed_at }) => <Time at={last_failed_at} /> },
];

function endpointColumns(
  recent: Overview['recent'],
): Column<TransferSummary['failures_by_endpoint'][number]>[] {
  return [
    {
      heading: 'Endpoint',
      kind: 'row',
      cell: ({ endpoint_id, name }) => (
        <span>
          <a
            class="file"
            href={listOf(recent, { status: 'failed', error_endpoint_id: endpoint_id })}
          >
            <Name of={name ?? endpoint_id} />
          </a>
          {name === null && <span class="route">Removed, or closed to this account</span>}
        </span>
      ),
    },
    TRANSFERS,
    ...TIMES,
  ];
}

function reasonColumns(recent: Overview['recent']): Column<TransferSummary['failures'][number]>[] {
  return [
    {
      heading: 'Reason',
      kind: 'row',
      cell: ({ code }) => (
        <span>
          <a class="file" href={listOf(recent, { status: 'failed', error_code: code })}>
            {reasonOf(code).label}
          </a>
          <span class="route mono">{code}</span>
        </span>
      ),
    },
    TRANSFERS,
    ...TIMES,
    {
      heading: 'Advice',
      cell: ({ code }) => (
        <span class="advice">
          <MarkedText>{reasonOf(code).advice}</MarkedText>
        </span>
      ),
    },
  ];
}
