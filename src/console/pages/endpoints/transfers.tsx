import type { Endpoint, TransferListItem } from '../../api/api-types.ts';
import { call, urlOf } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Time } from '../../components/values/time.tsx';
import { bytes } from '../../components/values/units.ts';
import { useSession } from '../../session.tsx';
import { FILE } from '../transfers/columns.tsx';
import { Reason } from '../transfers/reason.tsx';
import { TransferState } from '../transfers/states.tsx';

const SHOWN = 5;
const LOOK_MS = 10_000;

const COLUMNS: Column<TransferListItem>[] = [
  FILE,
  {
    heading: 'State',
    cell: ({ status, error }) => (
      <span>
        <TransferState status={status} /> {error && <Reason of={error} />}
      </span>
    ),
  },
  { heading: 'Size', kind: 'number', cell: ({ size_bytes }) => bytes(size_bytes) },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
];

/**
 * Lists the newest transfers of the account from or to an endpoint. Links to all of them, and to
 * those that failed, where they can be retried.
 */
export function EndpointTransfers({ endpoint: { protocol, name } }: { endpoint: Endpoint }) {
  const { account } = useSession().session;
  const q = `${protocol}://${name}/`;
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/transfers', { query: { q, limit: SHOWN }, signal }),
    [q],
    LOOK_MS,
  );
  const toRetry = { q, status: 'failed', retried: false } as const;
  const failed = useLoad(
    (signal) => call('GET /v1/transfers', { query: { ...toRetry, limit: 1 }, signal }),
    [q],
    LOOK_MS,
  );
  const { total = 0, total_is_exact = true } = failed.data?.pagination ?? {};
  const rows = data?.data ?? [];
  return (
    <section class="card" aria-label="Transfers from or to this endpoint">
      <header class="page-header">
        <h2>Transfers from or to this endpoint</h2>
        <p class="actions">
          {total > 0 && (
            <a href={urlOf('/console/transfers', { query: toRetry })}>
              Show failed transfers ({total.toLocaleString('en')}
              {!total_is_exact && '+'})
            </a>
          )}
          {rows.length > 0 && (
            <a href={urlOf('/console/transfers', { query: { q } })}>Show all transfers</a>
          )}
        </p>
      </header>
      <LoadState of={{ data, error, reload }} />
      {data && rows.length === 0 && (
        <p class="muted">
          {account} has no transfers from or to <code>{q}</code>.
        </p>
      )}
      {rows.length > 0 && (
        <Table
          caption={`Newest transfers of ${account} from or to this endpoint`}
          columns={COLUMNS}
          rows={rows}
          id={({ id }) => id}
        />
      )}
    </section>
  );
}
