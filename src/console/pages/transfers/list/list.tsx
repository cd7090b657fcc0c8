import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { BulkAction } from '../../../api/api-types.ts';
import { call } from '../../../api/client.ts';
import { useLoad } from '../../../api/use-load.ts';
import { useStored } from '../../../api/use-stored.ts';
import { Empty } from '../../../components/feedback/empty.tsx';
import { LoadState } from '../../../components/feedback/problem.tsx';
import { Page } from '../../../components/layout/page.tsx';
import { foundIn, Pager } from '../../../components/tables/pager.tsx';
import { useSelection } from '../../../components/tables/selection.tsx';
import { Table } from '../../../components/tables/table.tsx';
import { Icon } from '../../../components/values/icon.tsx';
import { Live } from '../../../components/values/live.tsx';
import { May, useSession } from '../../../session.tsx';
import { useColumns } from '../columns.tsx';
import { ADDRESS, addressOf, PAGE_SIZES, readView } from '../filter.ts';
import { FirstSteps } from '../first-steps.tsx';
import { BulkDialog, type Target } from './bulk-dialog.tsx';
import { Conditions } from './conditions.tsx';
import { CsvButton } from './csv-button.tsx';
import { Filters } from './filters.tsx';
import { ListBar } from './list-bar.tsx';
import { SavedFilters } from './saved-filters.tsx';
import { useMovingRows } from './use-moving-rows.ts';

const PAGE = 50;

/** The transfers of the account, live. The address holds filters, order and page. */
export function TransferListPage() {
  const { query, route } = useLocation();
  const mayChange = useSession().session.scopes.includes('transfers:write');
  const view = readView(query);
  const { filter, order, offset } = view;
  const [kept, keep] = useStored(
    'waybill-page-size',
    (stored) => PAGE_SIZES.find((size) => size === stored) ?? PAGE,
  );
  const limit = view.limit ?? kept;
  const asked = { ...filter, sort: order, limit, offset };
  const list = useLoad(
    (signal) => call('GET /v1/transfers', { query: asked, signal }),
    [JSON.stringify(asked)],
  );
  const selection = useSelection(
    list.data?.data ?? [],
    JSON.stringify(asked),
    ({ file_name }) => file_name,
  );
  const held = selection.ids.size > 0;
  const { rows, liveness, outdated, onPointer } = useMovingRows(list, view, held);
  const { columns, chooser } = useColumns();
  const filtered = Object.keys(filter).length > 0;
  const pagination = list.data?.pagination;
  const [change, setChange] = useState<{ action: BulkAction; target: Target } | null>(null);
  function close(sent: boolean): void {
    setChange(null);
    if (!sent) return;
    selection.clear();
    list.reload();
  }

  return (
    <Page
      title="Transfers"
      subtitle={<Live of={liveness} />}
      actions={
        <May scope="transfers:write">
          <a class="button primary" href="/console/transfers/new">
            <Icon name="plus" /> New transfer
          </a>
        </May>
      }
    >
      {pagination?.total === 0 && !filtered ? (
        <FirstSteps />
      ) : (
        <>
          <Filters view={view} />
          <Conditions view={view} />
          <SavedFilters view={view} />
          <LoadState of={list} found={pagination && foundIn(pagination)} />
          {pagination?.total === 0 && (
            <Empty title="No transfers match">
              <p>
                <a href={ADDRESS}>Show all</a>
              </p>
            </Empty>
          )}
          {pagination && rows.length > 0 && (
            <div class="list">
              <ListBar
                selection={selection}
                rows={rows}
                filter={filter}
                pagination={pagination}
                stale={list.stale}
                outdated={outdated}
                reload={list.reload}
                onAct={(action, target) => setChange({ action, target })}
              >
                {chooser}
                <CsvButton filter={filter} order={order} />
              </ListBar>
              <div
                class="rows"
                onPointerMove={() => onPointer(false)}
                onPointerLeave={() => onPointer(true)}
              >
                <Table
                  caption={`Transfers, ${order === 'created_at' ? 'oldest' : 'newest'} first`}
                  columns={mayChange ? [selection.column, ...columns] : columns}
                  rows={rows}
                  id={({ id }) => id}
                />
              </div>
            </div>
          )}
          {pagination && pagination.total > 0 && (
            <Pager pagination={pagination} shown={rows.length}>
              <label class="beside">
                <span>Rows per page</span>
                <select
                  value={limit}
                  onChange={({ currentTarget }) => {
                    const size = Number(currentTarget.value);
                    keep(() => size);
                    route(addressOf(view, { limit: size }));
                  }}
                >
                  {PAGE_SIZES.map((size) => (
                    <option key={size}>{size}</option>
                  ))}
                </select>
              </label>
            </Pager>
          )}
        </>
      )}
      {/* The dialog is outside of the list: a retry may empty the list, and the result must stay. */}
      {change && <BulkDialog {...change} onClose={close} />}
    </Page>
  );
}
