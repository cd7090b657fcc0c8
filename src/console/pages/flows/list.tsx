import { useLocation } from 'preact-iso/router';
import type { Flow, FlowList } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { LONGEST_PAGE } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { failing, late } from '../../attention.ts';
import { NewButton } from '../../components/dialogs/new-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { ListSearch } from '../../components/forms/list-search.tsx';
import { Page } from '../../components/layout/page.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { NoMatch, OnlySome } from '../../components/tables/only-some.tsx';
import { PagedTable } from '../../components/tables/paged-table.tsx';
import type { Column } from '../../components/tables/table.tsx';
import { Path } from '../../components/values/names.tsx';
import { May } from '../../session.tsx';
import { NewFlow } from './new.tsx';
import { FlowState, NextRun, RunStrip, triggerOf } from './states.tsx';

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
        <span class="route">
          <Path of={source.uri} />
        </span>
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
  { heading: 'Runs', cell: (flow) => <span class="words">{triggerOf(flow)}</span> },
  { heading: 'Next run', cell: (flow) => <NextRun flow={flow} /> },
  { heading: 'Waiting', kind: 'number', cell: (flow) => flow.waiting_files.toLocaleString('en') },
];

const LIST = { href: '/console/flows', label: 'Show all flows' };

/** Names of lists in the address, with the flows that they have. */
const STATES: Record<string, { what: string; of: (flows: FlowList) => Flow[] }> = {
  failing: { what: 'flows that cannot list their folder', of: failing },
  late: { what: 'flows that did not run when due', of: late },
};

/** The flows of the account, newest first; with `state` in the address, some of them. */
export function FlowListPage() {
  const { query } = useLocation();
  const open = useOpen();
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const { q = '', state: name = '' } = query;
  const state = Object.hasOwn(STATES, name) ? STATES[name] : undefined;
  const list = useLoad(
    (signal) => (state ? loadAll(q, state.of, signal) : loadPage(q, PAGE, offset, signal)),
    [q, name, offset],
    LOAD_MS,
  );
  const { data } = list;
  return (
    <Page
      title="Flows"
      subtitle="The files of a folder as they come, each version once"
      actions={
        <May scope="flows:write">
          <NewButton label="New flow">
            {() => <NewFlow onCreated={(id) => open(`/console/flows/${id}`)} />}
          </NewButton>
        </May>
      }
    >
      {(q || name || data?.pagination.total !== 0) && <ListSearch placeholder="Name or folder" />}
      {state && data && <OnlySome what={state.what} found={data.pagination.total} all={LIST} />}
      <PagedTable
        list={list}
        caption="Flows, newest first"
        columns={COLUMNS}
        empty={
          q ? (
            <NoMatch what="flows" all={LIST} />
          ) : (
            !state && (
              <Empty title="No flows yet">
                <p>
                  A flow looks at a folder again and again, and copies what is new there. It takes
                  each version of a file once.
                </p>
              </Empty>
            )
          )
        }
      />
    </Page>
  );
}

function loadPage(q: string, limit: number, offset: number, signal: AbortSignal) {
  return call('GET /v1/flows', { query: { ...(q && { q }), limit, offset }, signal });
}

async function loadAll(
  q: string,
  of: (flows: FlowList) => Flow[],
  signal: AbortSignal,
): Promise<FlowList> {
  // All flows of an account fit into one page.
  const data = of(await loadPage(q, LONGEST_PAGE, 0, signal));
  return {
    data,
    pagination: { total: data.length, limit: LONGEST_PAGE, offset: 0, has_more: false },
  };
}
