import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { Delivery } from '../../api/api-types.ts';
import { call, endsSession, RequestFailed, urlOf } from '../../api/client.ts';
import { COUNTED_TO, FAILED_KEPT_DAYS } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { SearchField } from '../../components/forms/search-field.tsx';
import { Page } from '../../components/layout/page.tsx';
import { foundIn, Pager } from '../../components/tables/pager.tsx';
import { SelectPage, useSelection } from '../../components/tables/selection.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { May, useSession, useUnsent } from '../../session.tsx';
import { AT_ONCE, EVENT, LATEST, retrying } from './delivery-columns.tsx';

const ADDRESS = '/console/webhooks/failed-deliveries';
/** Value of `account` in the address. */
const EVERY_ACCOUNT = 'all';
const PAGE = 50;
const LOOK_MS = 3_000;

/**
 * Deliveries that failed every attempt: of the account, or of all accounts. The address holds
 * filter and page.
 */
export function FailedDeliveriesPage() {
  const { query } = useLocation();
  const { account, scopes } = useSession().session;
  const mayRetry = scopes.includes('operate');
  const notify = useToast();
  const setUnsent = useUnsent(false);
  // Shown if the service rejected some of the retries, or the session ended between them.
  const [outcome, setOutcome] = useState<string | null>(null);
  const webhook_id = query.webhook_id ?? '';
  const everyAccount = query.account === EVERY_ACCOUNT && scopes.includes('admin');
  const scope = everyAccount ? {} : { account };
  const whose = everyAccount ? 'all accounts' : account;
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const { data, error, stale, reload } = useLoad(
    (signal) =>
      call('GET /v1/deliveries', {
        query: {
          status: 'failed',
          ...scope,
          ...(webhook_id && { webhook_id }),
          limit: PAGE,
          offset,
        },
        signal,
      }),
    [webhook_id, everyAccount, offset],
    LOOK_MS,
  );
  const rows = data?.data ?? [];
  const total = data?.pagination.total ?? 0;
  const count = `${total.toLocaleString('en')}${total >= COUNTED_TO ? '+' : ''} failed ${total === 1 ? 'delivery' : 'deliveries'}`;
  const selection = useSelection(
    rows,
    `${webhook_id} ${whose} ${offset}`,
    ({ event_type, event_id }) => `${event_type} ${event_id}`,
  );
  const marked = [...selection.ids];

  async function retry(ids: string[]): Promise<void> {
    setOutcome(null);
    // Keeps the page, with what is selected, if the session ends between two of them.
    setUnsent(true);
    const retried: string[] = [];
    const rejections: RequestFailed[] = [];
    for (const delivery_id of ids) {
      try {
        await call('POST /v1/deliveries/{delivery_id}/retry', { path: { delivery_id } });
        retried.push(delivery_id);
      } catch (error) {
        if (!(error instanceof RequestFailed)) throw error;
        if (endsSession(error.problem)) {
          selection.deselect(retried);
          setOutcome(interrupted(retried.length, rejections, ids.length));
          throw error;
        }
        rejections.push(error);
      }
    }
    setUnsent(false);
    selection.deselect(retried);
    reload();
    const [rejection] = rejections;
    if (rejection && retried.length === 0) throw rejection;
    if (rejection) setOutcome(`${retrying(retried.length)}. ${rejected(rejections)}`);
    else notify(retrying(retried.length));
  }

  async function retryAll(): Promise<void> {
    setOutcome(null);
    setUnsent(false);
    const { retried } = await call('POST /v1/deliveries/retry-failed', { body: scope });
    notify(retrying(retried));
    reload();
  }

  const columns: Column<Delivery>[] = [
    EVENT,
    {
      heading: 'Webhook',
      cell: ({ webhook_id, webhook_url, account_id }) => (
        <span>
          <a
            href={addressOf(everyAccount, webhook_id)}
            title={`${webhook_url ?? ''} ${webhook_id}`}
          >
            <span class="clamp">{webhook_url ?? <span class="mono">{webhook_id}</span>}</span>
          </a>
          {everyAccount && <span class="route">{account_id}</span>}
        </span>
      ),
    },
    ...LATEST,
  ];
  const retryOne: Column<Delivery> = {
    heading: 'Actions',
    cell: ({ id, event_type, event_id }) => (
      <ActionButton onAction={() => retry([id])}>
        Retry
        <span class="visually-hidden">
          {' '}
          {event_type} {event_id}
        </span>
      </ActionButton>
    ),
  };

  return (
    <Page
      title="Failed deliveries"
      subtitle={`Deliveries of ${whose} that failed every attempt. Kept for ${FAILED_KEPT_DAYS} days`}
      actions={
        total > 0 && (
          <May scope="operate">
            <ActionButton disabled={marked.length === 0} onAction={() => retry(marked)}>
              Retry selected ({marked.length})
            </ActionButton>
            {!webhook_id && (
              <ConfirmButton
                label="Retry all"
                kind="plain"
                title={`Retry ${count} of ${whose}?`}
                onConfirm={retryAll}
              >
                <p>{AT_ONCE} Deliveries of removed or disabled webhooks stay failed.</p>
              </ConfirmButton>
            )}
          </May>
        )
      }
    >
      <Filters webhookId={webhook_id} everyAccount={everyAccount} />
      {outcome && (
        <p class="notice warning" role="alert">
          {outcome}
        </p>
      )}
      <LoadState
        of={{ data, error, stale, reload }}
        found={data ? foundIn(data.pagination, COUNTED_TO) : undefined}
      />
      {data && total === 0 && <NothingFailed webhookId={webhook_id} everyAccount={everyAccount} />}
      {rows.length > 0 && (
        <>
          {mayRetry && <SelectPage selection={selection} />}
          <Table
            caption="Failed deliveries, newest first"
            columns={mayRetry ? [selection.column, ...columns, retryOne] : columns}
            rows={rows}
            id={({ id }) => id}
          />
        </>
      )}
      {data && total > 0 && (
        <Pager pagination={data.pagination} shown={rows.length} countedTo={COUNTED_TO} />
      )}
    </Page>
  );
}

interface ShownProps {
  /** Empty for those of all webhooks. */
  webhookId: string;
  everyAccount: boolean;
}

function Filters({ webhookId, everyAccount }: ShownProps) {
  const { route } = useLocation();
  const { account } = useSession().session;
  return (
    <search>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Webhook id"
          value={webhookId}
          placeholder="whk_…"
          onSearch={(text) => route(addressOf(everyAccount, text.trim()))}
        />
        <May scope="admin">
          <label>
            <span>Accounts</span>
            <select
              value={everyAccount ? EVERY_ACCOUNT : ''}
              onChange={({ currentTarget }) =>
                route(addressOf(currentTarget.value === EVERY_ACCOUNT, webhookId))
              }
            >
              <option value="">{account}</option>
              <option value={EVERY_ACCOUNT}>All accounts</option>
            </select>
          </label>
        </May>
      </form>
    </search>
  );
}

function NothingFailed({ webhookId, everyAccount }: ShownProps) {
  const { account } = useSession().session;
  const whose = everyAccount ? 'all accounts' : account;
  return (
    <Empty
      title={
        webhookId ? 'No failed deliveries of this webhook' : `No failed deliveries of ${whose}`
      }
    >
      {webhookId && (
        <p>
          <a href={addressOf(everyAccount)}>Show all webhooks</a>
        </p>
      )}
      {!everyAccount && (
        <May scope="admin">
          <p>
            <a href={addressOf(true, webhookId)}>Show all accounts</a>
          </p>
        </May>
      )}
      <p>
        To see other deliveries, open a <a href="/console/webhooks">webhook</a>.
      </p>
    </Empty>
  );
}

function addressOf(everyAccount: boolean, webhook_id = ''): string {
  return urlOf(ADDRESS, { query: { account: everyAccount ? EVERY_ACCOUNT : '', webhook_id } });
}

/** Tells how far the retries came before the session ended. */
function interrupted(retried: number, rejections: RequestFailed[], of: number): string {
  const left = of - retried - rejections.length;
  return [
    ...(retried > 0 ? [retrying(retried)] : []),
    ...(rejections.length > 0 ? [rejected(rejections)] : []),
    `The session ended before the retry of ${left === of ? '' : 'the other '}${left}`,
  ].join('. ');
}

/** Tells how many were rejected, and each reason once. */
function rejected(rejections: RequestFailed[]): string {
  const reasons = new Set(rejections.map(({ message }) => message));
  return `${rejections.length} rejected: ${[...reasons].join('. ')}`;
}
