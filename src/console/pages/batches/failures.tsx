import type { RejectedItem, TransferListItem } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { FileName } from '../../components/values/file-name.tsx';
import { Path } from '../../components/values/names.tsx';
import { addressOf } from '../transfers/filter.ts';
import { Reason } from '../transfers/reason.tsx';

const SHOWN = 25;

const FAILED: Column<TransferListItem>[] = [
  {
    heading: 'File',
    kind: 'row',
    cell: ({ id, file_name, destination }) => (
      <>
        <a class="file" href={`/console/transfers/${id}`}>
          <FileName of={file_name} />
        </a>
        <span class="route">
          <Path of={destination} />
        </span>
      </>
    ),
  },
  { heading: 'Reason', cell: ({ error }) => error && <Reason of={error} /> },
];

/** Lists the failed transfers of a batch. */
export function Failures({ batchId, failed }: { batchId: string; failed: number }) {
  const filter = { batch_id: batchId, status: 'failed' } as const;
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/transfers', { query: { ...filter, limit: SHOWN }, signal }),
    [batchId, failed],
  );
  const all = addressOf({ filter, order: '-created_at', limit: undefined });
  return (
    <section class="card">
      <h2>Failed</h2>
      <LoadState of={{ data, error, reload }} />
      {data && (
        <Table caption="Failed transfers" columns={FAILED} rows={data.data} id={({ id }) => id} />
      )}
      {failed > SHOWN && (
        <p>
          <a href={all}>Show all {failed.toLocaleString('en')} failed transfers</a>
        </p>
      )}
    </section>
  );
}

const REJECTED: Column<RejectedItem>[] = [
  {
    heading: 'Item',
    kind: 'row',
    cell: ({ source_uri }) => (
      <span class="mono">
        <Path of={source_uri} />
      </span>
    ),
  },
  {
    heading: 'Reason',
    cell: ({ error: { code, message } }) => (
      <span>
        {message} <code>{code}</code>
      </span>
    ),
  },
];

/** Lists the items that cannot become transfers. */
export function Rejected({ batchId, rejected }: { batchId: string; rejected: number }) {
  const { data, error, reload } = useLoad(
    (signal) =>
      call('GET /v1/batches/{batch_id}/rejected', {
        path: { batch_id: batchId },
        query: { limit: SHOWN },
        signal,
      }),
    [batchId, rejected],
  );
  return (
    <section class="card">
      <h2>Rejected</h2>
      <LoadState of={{ data, error, reload }} />
      {data && (
        <Table
          caption="Rejected items"
          columns={REJECTED}
          rows={data.data}
          id={({ item }) => item}
        />
      )}
      {rejected > SHOWN && (
        <p class="muted">
          The first {SHOWN} of {rejected.toLocaleString('en')}
        </p>
      )}
    </section>
  );
}
