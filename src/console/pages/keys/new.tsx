import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import type { KeyRequestInput } from '../../api/operations.ts';
import { Choices } from '../../components/choices.tsx';
import { CloseButton } from '../../components/dialog.tsx';
import { Field } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import { ShownOnce } from '../../components/shown-once.tsx';
import { useSession } from '../../session.tsx';

type Scope = KeyRequestInput['scopes'][number];

const SCOPES: Record<Scope, string> = {
  'transfers:read': 'See transfers and their history',
  'transfers:write': 'Create and cancel transfers as well',
  'webhooks:read': 'See webhooks and their deliveries',
  'webhooks:write': 'Register and change webhooks as well',
  'audit:read': 'Export the audit log',
  'metrics:read': 'Read metrics',
  admin: 'Everything, and this console',
};
const LIVES: [expiresIn: string, label: string][] = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['180d', '180 days'],
  ['365d', '1 year'],
  ['never', 'Never, where the installation allows it'],
];

interface NewKeyProps {
  onCreated: () => void;
  onClose: () => void;
}

/** Creates a key, then shows it, this once. */
export function NewKey({ onCreated, onClose }: NewKeyProps) {
  const { session } = useSession();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['transfers:write']);
  const [account, setAccount] = useState(session.account);
  const [expiresIn, setExpiresIn] = useState('90d');
  const [key, setKey] = useState<string | null>(null);

  async function create(): Promise<void> {
    const created = await call('POST /v1/keys', { body: { name, scopes, account, expires_in: expiresIn } });
    setKey(created.key ?? '');
    onCreated();
  }

  if (key !== null) {
    return (
      <ShownOnce label="API key" secret={key} onClose={onClose}>
        Only its fingerprint is kept. Where it is lost, revoke it and create another one.
      </ShownOnce>
    );
  }
  return (
    <Form
      submit="Create key"
      onSubmit={create}
      fields={['name', 'scopes', 'account', 'expires_in']}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <Field label="Name" hint="Which program, or who, it is for" error={errors.name}>
            <input autoComplete="off" value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
          </Field>
          <Choices legend="Scopes" of={SCOPES} chosen={scopes} onChange={setScopes} error={errors.scopes} />
          <div class="field-row">
            <Field label="Expires after" error={errors.expires_in}>
              <select value={expiresIn} onChange={({ currentTarget }) => setExpiresIn(currentTarget.value)}>
                {LIVES.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </Field>
            <Field label="Account" hint="Whose transfers it sees and creates" error={errors.account}>
              <input
                autoComplete="off"
                autoCapitalize="none"
                spellcheck={false}
                value={account}
                onInput={({ currentTarget }) => setAccount(currentTarget.value)}
              />
            </Field>
          </div>
        </>
      )}
    </Form>
  );
}
