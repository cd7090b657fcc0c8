import type { FlowFile } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Path } from '../../components/values/names.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { many } from '../../components/values/units.ts';
import { TransferState } from '../transfers/states.tsx';
import { readable } from '../transfers/uri.tsx';

const SHOWN = 25;
const LOAD_MS = 5_000;

const COLUMNS: Column<FlowFile>[] = [
  {
    heading: 'File',
    kind: 'row',
    cell: ({ source_uri, transfer_id, error }) => (
      <>
        {transfer_id === null ? (
          <Path of={readable(source_uri)} />
        ) : (
          <a href={`/console/transfers/${transfer_id}`}>
            <Path of={readable(source_uri)} />
          </a>
        )}
        {error && <span class="route">{error.message}</span>}
      </>
    ),
  },
  { heading: 'State', cell: ({ status }) => <FileState status={status} /> },
  { heading: 'Taken', cell: ({ taken_at }) => <Time at={taken_at} /> },
];

/**
 * The versions of files that a flow took or skipped, newest first. A new `stamp` loads them again.
 */
export function Files({ flowId, stamp }: { flowId: string; stamp: string }) {
  const { data, error, reload } = useLoad(
    (signal) =>
      call('GET /v1/flows/{flow_id}/files', {
        path: { flow_id: flowId },
        query: { limit: SHOWN },
        signal,
      }),
    [flowId, stamp],
    LOAD_MS,
  );
  const total = data?.pagination.total ?? 0;
  return (
    <section class="card">
      <h2>Files</h2>
      <LoadState of={{ data, error, reload }} />
      {data && total === 0 && <p class="muted">It has taken no file yet.</p>}
      {data && total > 0 && (
        <>
          <Table
            caption="Files, newest first"
            columns={COLUMNS}
            rows={data.data}
            id={({ source_uri, version }) => `${source_uri} ${version}`}
          />
          <p class="muted number">
            {data.data.length.toLocaleString('en')} of {many(total, 'version')}
          </p>
        </>
      )}
    </section>
  );
}

function FileState({ status }: Pick<FlowFile, 'status'>) {
  if (status === 'rejected') return <Status tone="bad">Rejected</Status>;
  if (status === 'skipped') return <Status tone="neutral">Skipped</Status>;
  if (status === 'removed') return <Status tone="neutral">Left the log</Status>;
  return <TransferState status={status} />;
}
