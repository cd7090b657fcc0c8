import { useState } from 'preact/hooks';
import type { KeyRequest } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useIdempotencyKey } from '../../api/use-idempotency-key.ts';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { ShownOnce } from '../../components/dialogs/shown-once.tsx';
import { Choices } from '../../components/forms/choices.tsx';
import { Field } from '../../components/forms/field.tsx';
import { Form } from '../../components/forms/form.tsx';
import { type Scope, useSession } from '../../session.tsx';

type Role = NonNullable<KeyRequest['role']>;

const ROLES: Record<Role, string> = {
  viewer: 'Viewer: reads transfers and webhooks',
  operator: 'Operator: also creates and cancels, pauses endpoints, manages webhooks',
  auditor: 'Auditor: a viewer who reads the whole log',
  admin: 'Admin: everything',
};

const SCOPES: Record<Scope, string> = {
  'transfers:read': 'Read transfers and their history',
  'transfers:write': 'Also create and cancel transfers',
  'flows:read': 'Read flows and their runs',
  'flows:write': 'Also create, change and run flows',
  'webhooks:read': 'Read webhooks and their deliveries',
  'webhooks:write': 'Also register and change webhooks',
  'audit:read': 'Export the audit log',
  'metrics:read': 'Read metrics',
  observe: 'See endpoints, and follow transfers and deliveries',
  operate: 'Also pause and test endpoints, abort transfers, retry deliveries',
  'audit:all': 'Export the audit log of every account',
  admin: 'Everything, including this console',
};
const LIVES: [expiresIn: string, label: string][] = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['180d', '180 days'],
  ['365d', '1 year'],
  ['never', 'Never (if the installation allows it)'],
];

interface NewKeyProps {
  onCreated: () => void;
  onClose: () => void;
}

/** Creates a key and shows it once. */
export function NewKey({ onCreated, onClose }: NewKeyProps) {
  const { session } = useSession();
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['transfers:write']);
  const [role, setRole] = useState<Role | null>(null);
  const [account, setAccount] = useState(session.account);
  const [expiresIn, setExpiresIn] = useState('90d');
  const [key, setKey] = useState<string | null>(null);

  const body = { name, ...(role ? { role } : { scopes }), account, expires_in: expiresIn };
  const idempotencyKey = useIdempotencyKey(body);

  async function create(): Promise<void> {
    const created = await call('POST /v1/keys', { body, idempotencyKey });
    setKey(created.key ?? '');
    onCreated();
  }

  if (key === '') {
    return (
      <>
        <p class="notice warning" role="alert">
          <span>
            <strong>The key {name} exists, but it is lost.</strong> It was in an answer that did not
            arrive, and Waybill stores only its hash. Revoke it and create another.
          </span>
        </p>
        <CloseButton first>Close</CloseButton>
      </>
    );
  }
  if (key !== null) {
    return (
      <ShownOnce label="API key" secret={key} onClose={onClose}>
        Waybill stores only its hash. If you lose the key, revoke it and create another.
      </ShownOnce>
    );
  }
  return (
    <Form
      submit="Create key"
      onSubmit={create}
      fields={['name', 'role', 'scopes', 'account', 'expires_in']}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <Field label="Name" hint="The program or person that uses it" error={errors.name}>
            <input
              autoComplete="off"
              value={name}
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          </Field>
          <Field label="Role" hint="A named set of scopes" error={errors.role}>
            <select
              value={role ?? ''}
              onChange={({ currentTarget }) =>
                setRole((currentTarget.value || null) as Role | null)
              }
            >
              <option value="">None: choose scopes</option>
              {Object.entries(ROLES).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </Field>
          {role === null && (
            <Choices
              legend="Scopes"
              options={SCOPES}
              chosen={scopes}
              onChange={setScopes}
              error={errors.scopes}
            />
          )}
          <div class="field-row">
            <Field label="Expires after" error={errors.expires_in}>
              <select
                value={expiresIn}
                onChange={({ currentTarget }) => setExpiresIn(currentTarget.value)}
              >
                {LIVES.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </Field>
            <Field
              label="Account"
              hint="It reads and creates transfers of this account"
              error={errors.account}
            >
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
