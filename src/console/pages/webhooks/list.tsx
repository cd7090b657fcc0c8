import type { Webhook } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { LONGEST_PAGE } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { NewButton } from '../../components/dialogs/new-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { Page } from '../../components/layout/page.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { May, useSession } from '../../session.tsx';
import { DeliveryStrip } from './delivery-columns.tsx';
import { NewWebhook } from './new.tsx';

const LOOK_MS = 10_000;

const URL: Column<Webhook> = {
  heading: 'URL',
  kind: 'row',
  cell: ({ id, url }) => (
    <a class="file" href={`/console/webhooks/${id}`} title={url}>
      <span class="clamp">{url}</span>
    </a>
  ),
};

const COLUMNS: Column<Webhook>[] = [
  {
    heading: 'Events',
    cell: ({ events }) => (
      <span class="tags">
        {events.map((type) => (
          <code key={type}>{type}</code>
        ))}
      </span>
    ),
  },
  { heading: 'State', cell: ({ enabled }) => <WebhookState enabled={enabled} /> },
  { heading: 'Registered', cell: ({ created_at }) => <Time at={created_at} /> },
];

export function WebhookListPage() {
  const { account, scopes } = useSession().session;
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/webhooks', { signal }),
    [],
    LOOK_MS,
  );
  const { data: latest } = useLoad(
    async (signal) =>
      scopes.includes('observe')
        ? call('GET /v1/deliveries', { query: { account, limit: LONGEST_PAGE }, signal })
        : null,
    [account],
    LOOK_MS,
  );
  const recent: Column<Webhook>[] =
    latest !== null
      ? [
          {
            heading: 'Latest deliveries',
            cell: ({ id }) => {
              const deliveries = latest.data.filter((one) => one.webhook_id === id);
              return deliveries.length === 0 && latest.pagination.has_more ? (
                <span class="muted">None of the latest {LONGEST_PAGE}</span>
              ) : (
                <DeliveryStrip deliveries={deliveries} />
              );
            },
          },
        ]
      : [];
  return (
    <Page
      title="Webhooks"
      subtitle="Receivers of this account's events"
      actions={
        <May scope="webhooks:write">
          <NewButton label="New webhook">
            {(close) => <NewWebhook onRegistered={reload} onClose={close} />}
          </NewButton>
        </May>
      }
    >
      <LoadState of={{ data, error, reload }} />
      {data?.data.length === 0 && (
        <Empty title="No webhooks yet">
          <p>
            Register a URL to be notified when transfers complete or fail. Waybill signs each
            delivery, retries it if it fails, and keeps the receiver's responses.
          </p>
          <p>
            <a href="/docs">How to write a receiver</a>
          </p>
        </Empty>
      )}
      {data && data.data.length > 0 && (
        <Table
          caption="Webhooks, newest first"
          columns={[URL, ...recent, ...COLUMNS]}
          rows={data.data}
          id={({ id }) => id}
        />
      )}
    </Page>
  );
}

export function WebhookState({ enabled }: { enabled: boolean }) {
  return enabled ? <Status tone="good">Enabled</Status> : <Status tone="warning">Disabled</Status>;
}
