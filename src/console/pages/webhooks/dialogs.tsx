import { useState } from 'preact/hooks';
import type { Webhook } from '../../api/api-types.ts';
import { call, changedMeanwhile } from '../../api/client.ts';
import { useIdempotencyKey } from '../../api/use-idempotency-key.ts';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { ShownOnce } from '../../components/dialogs/shown-once.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Checkbox } from '../../components/forms/checkbox.tsx';
import { Field } from '../../components/forms/field.tsx';
import { Form } from '../../components/forms/form.tsx';
import { inputTime, instantOf } from '../../components/values/instants.ts';
import { useZone } from '../../components/values/time-zone.tsx';
import { WebhookFields } from './fields.tsx';
import { newSecret } from './secret.ts';

interface DialogProps {
  webhook: Webhook;
  onClose: () => void;
}

export function ChangeWebhook({
  webhook,
  onChanged,
  onClose,
}: DialogProps & { onChanged: (webhook: Webhook) => void }) {
  const [opened] = useState(webhook);
  const [url, setUrl] = useState(webhook.url);
  const [events, setEvents] = useState(webhook.events);
  const [enabled, setEnabled] = useState(webhook.enabled);

  async function save(): Promise<void> {
    const path = { webhook_id: webhook.id };
    // The request names all of the form, so it would undo a change that the form does not show.
    const current = await call('GET /v1/webhooks/{webhook_id}', { path });
    if (current.updated_at !== opened.updated_at) throw changedMeanwhile('The webhook has changed');
    onChanged(
      await call('PATCH /v1/webhooks/{webhook_id}', {
        path,
        body: { url: url.trim(), events, enabled },
      }),
    );
    onClose();
  }

  return (
    <Form
      submit="Save changes"
      onSubmit={save}
      fields={['url', 'events']}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <WebhookFields
            url={url}
            events={events}
            onUrl={setUrl}
            onEvents={setEvents}
            errors={errors}
          />
          <Checkbox
            label="Enabled (while disabled, it misses events; replay them later)"
            checked={enabled}
            onChange={setEnabled}
          />
        </>
      )}
    </Form>
  );
}

const GRACES: [grace: string, label: string][] = [
  ['24h', '24 hours'],
  ['1h', '1 hour'],
  ['7d', '7 days'],
  ['0s', 'None (the old secret has leaked)'],
];

export function RotateSecret({
  webhook,
  onRotated,
  onClose,
}: DialogProps & { onRotated: () => void }) {
  const [grace, setGrace] = useState('24h');
  const [secret] = useState(newSecret);
  const [shown, setShown] = useState(false);
  const body = { grace, secret };
  const idempotencyKey = useIdempotencyKey(body);

  async function rotate(): Promise<void> {
    await call('POST /v1/webhooks/{webhook_id}/rotate-secret', {
      path: { webhook_id: webhook.id },
      body,
      idempotencyKey,
    });
    setShown(true);
    onRotated();
  }

  if (shown) {
    return (
      <ShownOnce label="New signing secret" secret={secret} onClose={onClose}>
        Give it to the receiver before the old secret expires.
      </ShownOnce>
    );
  }
  return (
    <Form
      submit="Rotate"
      onSubmit={rotate}
      fields={['grace']}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <p>
            Waybill generates a new secret. During the grace period,{' '}
            <code>X-Service-Signature</code> uses the old secret, and <code>webhook-signature</code>{' '}
            has signatures of both.
          </p>
          <Field label="Grace period of the old secret" error={errors.grace}>
            <select value={grace} onChange={({ currentTarget }) => setGrace(currentTarget.value)}>
              {GRACES.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </Field>
        </>
      )}
    </Form>
  );
}

const HOUR_MS = 3_600_000;

export function ReplayWebhook({ webhook, onClose }: DialogProps) {
  const notify = useToast();
  const zone = useZone();
  const [from, setFrom] = useState(() =>
    inputTime(new Date(Date.now() - HOUR_MS).toISOString(), zone),
  );
  const body = { from: instantOf(from, zone) ?? from };
  const idempotencyKey = useIdempotencyKey(body);

  async function replay(): Promise<void> {
    await call('POST /v1/webhooks/{webhook_id}/replay', {
      path: { webhook_id: webhook.id },
      body,
      idempotencyKey,
    });
    notify('Replay started. Its deliveries appear below');
    onClose();
  }

  return (
    <Form
      submit="Replay"
      onSubmit={replay}
      fields={['from']}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <p>
            Delivers all subscribed events again in the background, including delivered ones. Event
            ids stay the same.
          </p>
          <Field
            label="From"
            hint={zone === 'utc' ? 'In UTC' : 'In the time zone of this browser'}
            error={errors.from}
          >
            <input
              type="datetime-local"
              value={from}
              onInput={({ currentTarget }) => setFrom(currentTarget.value)}
            />
          </Field>
        </>
      )}
    </Form>
  );
}
