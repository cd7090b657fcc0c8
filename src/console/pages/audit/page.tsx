import { useLocation } from 'preact-iso/router';
import { call, saveCsv, urlOf } from '../../api/client.ts';
import { COUNTED_TO } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { Page } from '../../components/layout/page.tsx';
import { foundIn, Pager } from '../../components/tables/pager.tsx';
import { May } from '../../session.tsx';
import { AuditTable } from './events.tsx';
import { ADDRESS, Filters, readFilter } from './filters.tsx';

const PAGE = 50;

/** What people and keys did, in the whole installation. The address holds filter and page. */
export function AuditPage() {
  const { query } = useLocation();
  const filter = readFilter(query);
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const { data, error, stale, reload } = useLoad(
    (signal) => call('GET /v1/audit', { query: { ...filter, limit: PAGE, offset }, signal }),
    [JSON.stringify(filter), offset],
  );
  const total = data?.pagination.total ?? 0;
  return (
    <Page
      title="Audit log"
      subtitle="Who did what, in every account"
      actions={
        <ActionButton
          disabled={total === 0}
          onAction={() => saveCsv('GET /v1/audit', { ...filter }, 'audit.csv')}
        >
          Export CSV
        </ActionButton>
      }
    >
      <Filters filter={filter} />
      <LoadState
        of={{ data, error, stale, reload }}
        found={data ? foundIn(data.pagination, COUNTED_TO) : undefined}
      />
      {data && total === 0 && (
        <Empty title="No events match">
          {filter.subject && (
            <May scope="transfers:read">
              <p>
                A name of a file matches nothing here.{' '}
                <a href={urlOf('/console/transfers', { query: { q: filter.subject } })}>
                  Search the transfers for it
                </a>
                : each has its whole history.
              </p>
            </May>
          )}
          <p>
            <a href={ADDRESS}>Show all</a>
          </p>
        </Empty>
      )}
      {data && data.data.length > 0 && <AuditTable events={data.data} />}
      {data && total > 0 && (
        <Pager pagination={data.pagination} shown={data.data.length} countedTo={COUNTED_TO} />
      )}
    </Page>
  );
}
