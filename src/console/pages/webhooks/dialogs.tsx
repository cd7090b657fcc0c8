import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import type { Webhook } from '../../api/operations.ts';
import { Choices } from '../../components/choices.tsx';
import { CloseButton } from '../../components/dialog.tsx';
import { Field } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import { ShownOnce } from '../../components/shown-once.tsx';
import { useToast } from '../../components/toast.tsx';
import { EVENT_TYPES } from './event-types.ts';

interface DialogProps {
  webhook: Webhook;
  onClose: () => void;
}

export function ChangeWebhook({ webhook, onChanged, onClose }: DialogProps & { onChanged: (webhook: Webhook) => void }) {
  const [url, setUrl] = useState(webhook.url);
  const [events, setEvents] = useState(webhook.events);
  const [enabled, setEnabled] = useState(webhook.enabled);

  async function save(): Promise<void> {
    onChanged(await call('PATCH /v1/webhooks/{webhook_id}', { path: { webhook_id: webhook.id }, body: { url, events, enabled } }));
    onClose();
  }

  return (
    <Form submit="Save" onSubmit={save} fields={['url', 'events']} beside={<CloseButton>Cancel</CloseButton>}>
      {(errors) => (
        <>
          <Field label="URL" error={errors.url}>
            <input
              type="url"
              autoComplete="off"
              spellcheck={false}
              value={url}
              onInput={({ currentTarget }) => setUrl(currentTarget.value)}
            />
          </Field>
          <Choices legend="Events" of={EVENT_TYPES} chosen={events} onChange={setEvents} error={errors.events} />
          <label class="choice">
            <input type="checkbox" checked={enabled} onChange={({ currentTarget }) => setEnabled(currentTarget.checked)} />
            Enabled: what happens while it is not is never told, unless it is replayed
          </label>
        </>
      )}
    </Form>
  );
}

const GRACES: [grace: string, label: string][] = [
  ['24h', '24 hours: receivers change in peace'],
  ['1h', '1 hour'],
  ['7d', '7 days'],
  ['0s', 'None: the old one has leaked'],
];

export function RotateSecret({ webhook, onRotated, onClose }: DialogProps & { onRotated: () => void }) {
  const [grace, setGrace] = useState('24h');
  const [secret, setSecret] = useState<string | null>(null);

  async function rotate(): Promise<void> {
    const rotated = await call('POST /v1/webhooks/{webhook_id}/rotate-secret', { path: { webhook_id: webhook.id }, body: { grace } });
    setSecret(rotated.secret ?? '');
    onRotated();
  }

  if (secret !== null) {
    return (
      <ShownOnce label="New signing secret" secret={secret} onClose={onClose}>
        Give it to the receiver before the old one ends.
      </ShownOnce>
    );
  }
  return (
    <Form submit="Rotate" onSubmit={rotate} fields={['grace']} beside={<CloseButton>Cancel</CloseButton>}>
      {(errors) => (
        <>
          <p>
            A new secret is made. Until the time below ends, <code>X-Service-Signature</code> stays with the old one and{' '}
            <code>webhook-signature</code> carries both.
          </p>
          <Field label="The old secret goes on for" error={errors.grace}>
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
  const say = useToast();
  const [from, setFrom] = useState(() => localTime(new Date(Date.now() - HOUR_MS)));

  async function replay(): Promise<void> {
    const time = new Date(from);
    const body = { from: Number.isNaN(time.getTime()) ? from : time.toISOString() };
    await call('POST /v1/webhooks/{webhook_id}/replay', { path: { webhook_id: webhook.id }, body });
    say('The replay has begun: its deliveries appear below');
    onClose();
  }

  return (
    <Form submit="Replay" onSubmit={replay} fields={['from']} beside={<CloseButton>Cancel</CloseButton>}>
      {(errors) => (
        <>
          <p>
            All that it subscribes to is delivered again, in the background: also what has arrived. Receivers know it by the same event ids.
          </p>
          <Field label="From" hint="In the time zone of this browser" error={errors.from}>
            <input type="datetime-local" value={from} onInput={({ currentTarget }) => setFrom(currentTarget.value)} />
          </Field>
        </>
      )}
    </Form>
  );
}

/** As `datetime-local` has it. */
function localTime(time: Date): string {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
