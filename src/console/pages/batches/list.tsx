import { useLocation } from 'preact-iso/router';
import type { Batch } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { NewButton } from '../../components/dialogs/new-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { Page } from '../../components/layout/page.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { PagedTable } from '../../components/tables/paged-table.tsx';
import type { Column } from '../../components/tables/table.tsx';
import { Path } from '../../components/values/names.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';
import { NewBatch } from './new.tsx';
import { BatchState, Ended, useBatchName } from './states.tsx';

const PAGE = 25;
/** How often the list loads while a batch on it is open, and else, in milliseconds. */
const OPEN_MS = 2_000;
const QUIET_MS = 15_000;

const COLUMNS: Column<Batch>[] = [
  {
    heading: 'Batch',
    kind: 'row',
    cell: (batch) => <BatchName batch={batch} />,
  },
  {
    heading: 'State',
    cell: (batch) => (
      <span>
        <BatchState batch={batch} />
        {batch.failing && <span class="reason">{batch.failing.error.message}</span>}
      </span>
    ),
  },
  {
    heading: 'Progress',
    cell: (batch) => <Ended batch={batch} />,
  },
  { heading: 'Files', kind: 'number', cell: ({ counts }) => counts.items.toLocaleString('en') },
  { heading: 'Failed', kind: 'number', cell: ({ counts }) => counts.failed.toLocaleString('en') },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
];

function BatchName({ batch }: { batch: Batch }) {
  const nameOf = useBatchName();
  const { id, folder } = batch;
  return (
    <>
      <a class="file" href={`/console/batches/${id}`}>
        <Path of={nameOf(batch)} />
      </a>
      {folder && (
        <span class="route">
          to <Path of={folder.destination_uri} />
        </span>
      )}
      <span class="route mono">{id}</span>
    </>
  );
}

/** The batches of the account, newest first. */
export function BatchListPage() {
  const { query } = useLocation();
  const open = useOpen();
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const list = useLoad(
    (signal) => call('GET /v1/batches', { query: { limit: PAGE, offset }, signal }),
    [offset],
    (loaded) => (loaded?.data.some(({ ended_at }) => ended_at === null) ? OPEN_MS : QUIET_MS),
  );
  return (
    <Page
      title="Batches"
      subtitle="Many files with one request"
      actions={
        <May scope="transfers:write">
          <NewButton label="New batch">
            {() => <NewBatch onCreated={(id) => open(`/console/batches/${id}`)} />}
          </NewButton>
        </May>
      }
    >
      <PagedTable
        list={list}
        caption="Batches, newest first"
        columns={COLUMNS}
        empty={
          <Empty title="No batches yet">
            <p>
              A batch copies the files of a folder, or a list of files with one request of the API.
              Here you follow it as one, and see first what failed.
            </p>
          </Empty>
        }
      />
    </Page>
  );
}
