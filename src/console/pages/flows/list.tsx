import { useLocation } from 'preact-iso/router';
import { call } from '../../api/client.ts';
import type { Flow } from '../../api/operations.ts';
import { useLoad } from '../../api/use-load.ts';
import { DialogButton } from '../../components/dialogs/dialog-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { Page } from '../../components/layout/page.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { PagedTable } from '../../components/tables/paged-table.tsx';
import type { Column } from '../../components/tables/table.tsx';
import { Icon } from '../../components/values/icon.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';
import { NewFlow } from './new.tsx';
import { FlowState, RunStrip, triggerOf } from './states.tsx';

const PAGE = 25;
const LOAD_MS = 5_000;

const COLUMNS: Column<Flow>[] = [
  {
    heading: 'Flow',
    kind: 'row',
    cell: ({ id, name, source }) => (
      <>
        <a class="file" href={`/console/flows/${id}`}>
          {name}
        </a>
        <span class="route">{source.uri}</span>
      </>
    ),
  },
  {
    heading: 'State',
    cell: (flow) => (
      <span>
        <FlowState flow={flow} />
        {flow.failing && <span class="reason">{flow.failing.error.message}</span>}
      </span>
    ),
  },
  { heading: 'Recent runs', cell: ({ recent_runs }) => <RunStrip runs={recent_runs} /> },
  { heading: 'Runs', cell: triggerOf },
  { heading: 'Next run', cell: ({ next_run_at }) => <Time at={next_run_at} /> },
  { heading: 'Waiting', kind: 'number', cell: (flow) => flow.waiting_files.toLocaleString('en') },
];

/** The flows of the account, newest first. */
export function FlowListPage() {
  const { query } = useLocation();
  const open = useOpen();
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const list = useLoad(
    (signal) => call('GET /v1/flows', { query: { limit: PAGE, offset }, signal }),
    [offset],
    LOAD_MS,
  );
  return (
    <Page
      title="Flows"
      subtitle="The files of a folder as they come, each version once"
      actions={
        <May scope="flows:write">
          <DialogButton
            kind="primary"
            label={
              <>
                <Icon name="plus" /> New flow
              </>
            }
            title="New flow"
          >
            {() => <NewFlow onCreated={(id) => open(`/console/flows/${id}`)} />}
          </DialogButton>
        </May>
      }
    >
      <PagedTable
        list={list}
        caption="Flows, newest first"
        columns={COLUMNS}
        empty={
          <Empty title="No flows yet">
            <p>
              A flow looks at a folder again and again, and copies what is new there. It takes each
              version of a file once.
            </p>
          </Empty>
        }
      />
    </Page>
  );
}
