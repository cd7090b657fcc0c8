import { useLocation } from 'preact-iso/router';
import type { Delivery, Webhook } from '../../api/api-types.ts';
import { call, urlOf } from '../../api/client.ts';
import { COUNTED_TO } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { FilterSelect } from '../../components/forms/filter-select.tsx';
import { foundIn, Pager } from '../../components/tables/pager.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { May } from '../../session.tsx';
import { AT_ONCE, EVENT, LATEST, retrying } from './delivery-columns.tsx';
import { DELIVERY_STATUSES, DeliveryState, deliveryLabel } from './delivery-state.tsx';

const PAGE = 25;
const LOOK_MS = 3_000;

const COLUMNS: Column<Delivery>[] = [
  EVENT,
  { heading: 'State', cell: ({ status }) => <DeliveryState status={status} /> },
  ...LATEST,
];

/** The deliveries of a webhook. The address holds filter and page. */
export function WebhookDeliveries({ webhook: { id } }: { webhook: Webhook }) {
  const { path, query, route } = useLocation();
  const notify = useToast();
  const status = DELIVERY_STATUSES.find((known) => known === query.status);
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const { data, error, stale, reload } = useLoad(
    (signal) =>
      call('GET /v1/webhooks/{webhook_id}/deliveries', {
        path: { webhook_id: id },
        query: { ...(status && { status }), limit: PAGE, offset },
        signal,
      }),
    [id, status, offset],
    LOOK_MS,
  );

  async function retry(): Promise<void> {
    const { retried } = await call('POST /v1/webhooks/{webhook_id}/retry-failed', {
      path: { webhook_id: id },
    });
    notify(retried === 0 ? 'No failed deliveries' : retrying(retried));
    reload();
  }

  return (
    <section class="card">
      <header class="page-header">
        <h2>Deliveries</h2>
        <div class="actions">
          <May scope="webhooks:write">
            <ConfirmButton
              label="Retry all failed"
              kind="plain"
              title="Retry all failed deliveries of this webhook?"
              onConfirm={retry}
            >
              <p>{AT_ONCE}</p>
            </ConfirmButton>
          </May>
        </div>
      </header>
      <search>
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <FilterSelect
            label="State"
            value={status}
            options={DELIVERY_STATUSES.map((name) => [name, deliveryLabel(name)])}
            onChange={(chosen) => route(urlOf(path, { query: { status: chosen } }))}
          />
        </form>
      </search>
      <LoadState
        of={{ data, error, stale, reload }}
        found={data ? foundIn(data.pagination, COUNTED_TO) : undefined}
      />
      {data?.pagination.total === 0 && (
        <Empty title={status ? 'No deliveries in this state' : 'No deliveries yet'}>
          <May scope="webhooks:write">
            <p>Send a ping to test the receiver.</p>
          </May>
        </Empty>
      )}
      {data && data.data.length > 0 && (
        <Table
          caption="Deliveries, newest first"
          columns={COLUMNS}
          rows={data.data}
          id={(row) => row.id}
        />
      )}
      {data && data.pagination.total > 0 && (
        <Pager pagination={data.pagination} shown={data.data.length} countedTo={COUNTED_TO} />
      )}
    </section>
  );
}
