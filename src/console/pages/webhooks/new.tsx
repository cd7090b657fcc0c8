import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { useIdempotencyKey } from '../../api/use-idempotency-key.ts';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { ShownOnce } from '../../components/dialogs/shown-once.tsx';
import { Field } from '../../components/forms/field.tsx';
import { Form } from '../../components/forms/form.tsx';
import type { EventType } from './event-types.ts';
import { WebhookFields } from './fields.tsx';
import { newSecret } from './secret.ts';

interface NewWebhookProps {
  onRegistered: () => void;
  onClose: () => void;
}

/** Registers a webhook. A generated secret is shown once. */
export function NewWebhook({ onRegistered, onClose }: NewWebhookProps) {
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<EventType[]>(['transfer.completed', 'transfer.failed']);
  const [secret, setSecret] = useState('');
  const [generated] = useState(newSecret);
  const [shown, setShown] = useState(false);
  const body = { url: url.trim(), events, secret: secret || generated };
  const idempotencyKey = useIdempotencyKey(body);

  async function register(): Promise<void> {
    await call('POST /v1/webhooks', { body, idempotencyKey });
    onRegistered();
    if (body.secret === generated) setShown(true);
    else onClose();
  }

  if (shown) {
    return (
      <ShownOnce label="Signing secret" secret={generated} onClose={onClose}>
        The receiver needs it to verify signatures. If you lose it, rotate it.
      </ShownOnce>
    );
  }
  return (
    <Form
      submit="Register"
      onSubmit={register}
      fields={['url', 'events', 'secret']}
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
          <Field
            label="Signing secret"
            hint="Leave empty to generate one, shown once"
            error={errors.secret}
          >
            <input
              type="password"
              autoComplete="new-password"
              value={secret}
              onInput={({ currentTarget }) => setSecret(currentTarget.value)}
            />
          </Field>
        </>
      )}
    </Form>
  );
}
