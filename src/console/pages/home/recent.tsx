import type { TransferSummary } from '../../api/api-types.ts';
import { reasonOf } from '../../api/error-reasons.ts';
import { type Column, Table } from '../../components/tables/table.tsx';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Time } from '../../components/values/time.tsx';
import { type Overview, type Part, useOverview } from '../../overview.tsx';
import { useSession } from '../../session.tsx';
import { StateTiles } from '../transfers/state-tiles.tsx';
import { listOf } from './checks.ts';

/** The service counts the reasons of the newest failures only. */
const REASONS_OF = 10_000;

/** Counts the transfers created in the last 24 hours, by state and by reason of failure. */
export function Recent({ summary }: { summary: NonNullable<Part<TransferSummary>> }) {
  const { recent } = useOverview();
  const { account } = useSession().session;
  const { data } = summary;
  return (
    <>
      <section class="card" aria-labelledby="recent" aria-busy={data === null}>
        <header>
          <h2 id="recent">Transfers of the last 24 hours</h2>
          <p class="muted">
            {account}, created since <Time at={recent.from_date} />
          </p>
        </header>
        <StateTiles
          total={data?.total}
          counts={data?.by_status}
          listOf={(status) => listOf(recent, status && { status })}
        />
      </section>
      {data && data.failures.length > 0 && <Failures summary={data} recent={recent} />}
    </>
  );
}

function Failures({ summary, recent }: { summary: TransferSummary; recent: Overview['recent'] }) {
  const { failures, by_status } = summary;
  const columns: Column<TransferSummary['failures'][number]>[] = [
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
    {
      heading: 'Transfers',
      kind: 'number',
      cell: ({ transfers }) => transfers.toLocaleString('en'),
    },
    {
      heading: 'Advice',
      cell: ({ code }) => (
        <span class="advice">
          <MarkedText>{reasonOf(code).advice}</MarkedText>
        </span>
      ),
    },
  ];
  return (
    <section class="card" aria-labelledby="failures">
      <h2 id="failures">Why transfers failed</h2>
      {by_status.failed > REASONS_OF && (
        <p class="muted">Of the newest {REASONS_OF.toLocaleString('en')} that failed.</p>
      )}
      <Table
        caption="Reasons of these failures, the most frequent first"
        columns={columns}
        rows={failures}
        id={({ code }) => code}
      />
    </section>
  );
}
