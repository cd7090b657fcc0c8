import { useRoute } from 'preact-iso/router';
import type { Webhook } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { DialogButton } from '../../components/dialogs/dialog-button.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { CopyableId } from '../../components/values/copyable-id.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';
import { SubjectHistory } from '../audit/subject-history.tsx';
import { ChangeWebhook, ReplayWebhook, RotateSecret } from './dialogs.tsx';
import { WebhookState } from './list.tsx';
import { Success } from './success.tsx';
import { WebhookDeliveries } from './webhook-deliveries.tsx';

/** One webhook: its settings, deliveries and actions. */
export function WebhookPage() {
  const id = useRoute().params.id ?? '';
  const open = useOpen();
  const {
    data: webhook,
    error,
    reload,
    set,
  } = useLoad(
    (signal) => call('GET /v1/webhooks/{webhook_id}', { path: { webhook_id: id }, signal }),
    [id],
  );
  if (!webhook) {
    const list = { href: '/console/webhooks', label: 'Show webhooks' };
    return <UnloadedPage title="Webhook" error={error} retry={reload} list={list} />;
  }
  return (
    <Page
      title={webhook.url}
      subtitle={
        <>
          <WebhookState enabled={webhook.enabled} />
          <CopyableId id={webhook.id} what="webhook id" />
        </>
      }
      actions={
        <May scope="webhooks:write">
          <Ping webhook={webhook} />
          <DialogButton label="Edit" title="Edit webhook">
            {(close) => <ChangeWebhook webhook={webhook} onChanged={set} onClose={close} />}
          </DialogButton>
          <DialogButton label="Rotate secret" title="Rotate secret">
            {(close) => <RotateSecret webhook={webhook} onRotated={reload} onClose={close} />}
          </DialogButton>
          <DialogButton label="Replay" title="Replay events">
            {(close) => <ReplayWebhook webhook={webhook} onClose={close} />}
          </DialogButton>
          <Remove webhook={webhook} onRemoved={() => open('/console/webhooks')} />
        </May>
      }
    >
      <LoadState of={{ data: webhook, error, reload }} />
      <section class="card">
        <h2>Details</h2>
        <Facts
          of={{
            URL: <code>{webhook.url}</code>,
            Events: (
              <span class="tags">
                {webhook.events.map((type) => (
                  <code key={type}>{type}</code>
                ))}
              </span>
            ),
            Registered: <Time at={webhook.created_at} />,
            Updated: <Time at={webhook.updated_at} />,
            'Old secret expires': webhook.previous_secret_valid_until ? (
              <Time at={webhook.previous_secret_valid_until} />
            ) : undefined,
          }}
        />
      </section>
      <Success webhookId={id} />
      <WebhookDeliveries webhook={webhook} />
      <SubjectHistory kind="webhook" id={id} stamp={webhook.updated_at} />
    </Page>
  );
}

function Ping({ webhook: { id } }: { webhook: Webhook }) {
  const open = useOpen();
  async function ping(idempotencyKey: string): Promise<void> {
    const delivery = await call('POST /v1/webhooks/{webhook_id}/ping', {
      path: { webhook_id: id },
      idempotencyKey,
    });
    open(`/console/webhooks/${id}/deliveries/${delivery.id}`);
  }
  return <ActionButton onAction={ping}>Ping</ActionButton>;
}

function Remove({ webhook: { id }, onRemoved }: { webhook: Webhook; onRemoved: () => void }) {
  const notify = useToast();
  async function remove(): Promise<void> {
    await call('DELETE /v1/webhooks/{webhook_id}', { path: { webhook_id: id } });
    notify('Webhook removed');
    onRemoved();
  }
  return (
    <ConfirmButton label="Remove" title="Remove this webhook?" onConfirm={remove}>
      <p>
        It receives no more events, and its pending deliveries fail. To pause it, disable it
        instead.
      </p>
    </ConfirmButton>
  );
}
