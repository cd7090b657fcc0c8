import { useRoute } from 'preact-iso/router';
import type { DeliveryAttempt } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { CopyableId } from '../../components/values/copyable-id.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { May, useSession } from '../../session.tsx';
import { DeliveryState } from './delivery-state.tsx';
import { Request } from './request.tsx';

const LOOK_MS = 2_000;

/** One delivery, of any account: its body and the response to each attempt. */
export function DeliveryPage() {
  const delivery_id = useRoute().params.delivery ?? '';
  const { session } = useSession();
  const path = { delivery_id };
  const {
    data: delivery,
    error,
    reload,
  } = useLoad(
    (signal) => call('GET /v1/deliveries/{delivery_id}', { path, signal }),
    [delivery_id],
    LOOK_MS,
  );
  if (!delivery) {
    const list = { href: '/console/webhooks', label: 'Show webhooks' };
    return <UnloadedPage title="Delivery" error={error} retry={reload} list={list} />;
  }

  const {
    status,
    event_type,
    event_id,
    webhook_id,
    webhook_url,
    transfer_id,
    account_id,
    next_attempt_at,
    delivered_at,
    attempt_list,
  } = delivery;
  // The pages of another account's webhook and transfer are not visible to this one.
  const own = account_id === session.account;
  return (
    <Page
      title={`Delivery of ${event_type}`}
      subtitle={
        <>
          <span role="status">
            <DeliveryState status={status} />
          </span>
          <CopyableId id={delivery.id} what="delivery id" />
        </>
      }
      actions={
        <May scope="operate">
          <ActionButton
            disabled={status === 'pending'}
            onAction={() => call('POST /v1/deliveries/{delivery_id}/retry', { path }).then(reload)}
          >
            Retry
          </ActionButton>
        </May>
      }
    >
      <LoadState of={{ data: delivery, error, reload }} />
      <section class="card">
        <h2>Details</h2>
        <Facts
          of={{
            Webhook: (
              <>
                {webhook_url}{' '}
                <Id id={webhook_id} href={own ? `/console/webhooks/${webhook_id}` : null} />
              </>
            ),
            Account: account_id,
            Event: <code>{event_id}</code>,
            Transfer: transfer_id ? (
              <Id id={transfer_id} href={own ? `/console/transfers/${transfer_id}` : null} />
            ) : undefined,
            Created: <Time at={delivery.created_at} />,
            'Next attempt': next_attempt_at ? <Time at={next_attempt_at} /> : undefined,
            Delivered: delivered_at ? <Time at={delivered_at} /> : undefined,
          }}
        />
      </section>
      <section class="card">
        <h2>Attempts</h2>
        {attempt_list.length === 0 && <p class="muted">No attempts yet.</p>}
        <ol class="attempts">
          {attempt_list.toReversed().map((attempt) => (
            <Attempt key={attempt.number} attempt={attempt} />
          ))}
        </ol>
      </section>
      <Request delivery={delivery} />
    </Page>
  );
}

/** An id, as a link unless `href` is null. */
function Id({ id, href }: { id: string; href: string | null }) {
  const code = <code>{id}</code>;
  return href === null ? code : <a href={href}>{code}</a>;
}

function Attempt({
  attempt: { number, at, duration_ms, status_code, error, response_body },
}: {
  attempt: DeliveryAttempt;
}) {
  return (
    <li>
      <p class="test-step">
        <Status tone={error === null ? 'good' : 'bad'}>
          {status_code === null ? 'No response' : `HTTP ${status_code}`}
        </Status>
        <strong>Attempt {number}</strong>
        <Time at={at} />
        <span class="muted number">{duration_ms} ms</span>
      </p>
      {error !== null && <p>{error}</p>}
      {response_body && (
        <pre>
          <code>{response_body}</code>
        </pre>
      )}
    </li>
  );
}
