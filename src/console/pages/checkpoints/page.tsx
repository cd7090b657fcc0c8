import { useLocation } from 'preact-iso/router';
import type { LogCheckpoint } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Page } from '../../components/layout/page.tsx';
import { Pager } from '../../components/tables/pager.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { CopyButton } from '../../components/values/copy-button.tsx';
import { Time } from '../../components/values/time.tsx';
import { many } from '../../components/values/units.ts';
import { Sinks } from './sinks.tsx';

const PAGE = 25;
const LOOK_MS = 5_000;

const COLUMNS: Column<LogCheckpoint>[] = [
  { heading: 'Events', kind: 'row', headed: true, cell: ({ size }) => size.toLocaleString('en') },
  { heading: 'Root', cell: ({ root_hash }) => <code>{root_hash.slice(0, 16)}…</code> },
  { heading: 'Key', cell: ({ key_id }) => <code>{key_id}</code> },
  { heading: 'Signed', cell: ({ signed_at }) => <Time at={signed_at} /> },
  {
    heading: 'Note',
    cell: ({ note, size }) => (
      <CopyButton text={note} what={`the note over ${many(size, 'event')}`} />
    ),
  },
];

/** The signed checkpoints of the log, and the places outside that keep them. */
export function CheckpointsPage() {
  const offset = Math.max(0, Math.trunc(Number(useLocation().query.offset) || 0));
  const notify = useToast();
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/checkpoints', { query: { limit: PAGE, offset }, signal }),
    [offset],
    LOOK_MS,
  );

  async function sign(): Promise<void> {
    const { size } = await call('POST /v1/checkpoints');
    notify(`The last checkpoint covers ${many(size, 'event')}`);
    reload();
  }

  return (
    <Page
      title="Checkpoints"
      subtitle="Each signs the whole log up to its number of events"
      actions={<ActionButton onAction={sign}>Sign now</ActionButton>}
    >
      <Sinks />
      <LoadState of={{ data, error, reload }} />
      {data && data.data.length === 0 && (
        <Empty title="No checkpoint yet">
          <p>Waybill signs one a minute, if something happened since the last one.</p>
        </Empty>
      )}
      {data && data.data.length > 0 && (
        <section class="card">
          <h2>Signed</h2>
          <Table
            caption="Checkpoints, newest first"
            columns={COLUMNS}
            rows={data.data}
            id={({ size }) => size}
          />
          <Pager pagination={data.pagination} shown={data.data.length} />
        </section>
      )}
    </Page>
  );
}
