import { useLocation } from 'preact-iso/router';
import type { Key } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { expiring } from '../../attention.ts';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { NewButton } from '../../components/dialogs/new-button.tsx';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Page } from '../../components/layout/page.tsx';
import { OnlySome } from '../../components/tables/only-some.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { isolated } from '../../components/values/names.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { useSession } from '../../session.tsx';
import { NewKey } from './new.tsx';

const LIST = { href: '/console/settings/api-keys', label: 'Show all keys' };
const LOOK_MS = 30_000;

const COLUMNS: Column<Key>[] = [
  {
    heading: 'Name',
    kind: 'row',
    cell: ({ name, last_four, account }) => (
      <>
        <strong>{name}</strong>
        <span class="route">
          <span class="mono">wb_…{last_four}</span> of {account}
        </span>
      </>
    ),
  },
  {
    heading: 'Scopes',
    cell: ({ scopes, role }) => (
      <span class="tags">
        {role && <strong>{role}</strong>}
        {!role && scopes.map((scope) => <code key={scope}>{scope}</code>)}
      </span>
    ),
  },
  {
    heading: 'State',
    cell: (key) => (
      <span>
        <KeyState apiKey={key} />
        <Expiry apiKey={key} />
      </span>
    ),
  },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    heading: 'Last used',
    cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'Never'),
  },
];

/** Lists the API keys; with `state=expiring`, only those that expire soon. */
export function KeyListPage() {
  const filtered = useLocation().query.state === 'expiring';
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/keys', { signal }),
    [],
    LOOK_MS,
  );
  const keys = data?.data ?? [];
  const ended = keys.filter(({ status }) => status !== 'active');
  const active = keys.filter(({ status }) => status === 'active');
  const rows = data && filtered ? expiring(data) : active;
  const revoke: Column<Key> = {
    heading: 'Actions',
    cell: (key) => <RevokeButton apiKey={key} onRevoked={reload} />,
  };
  return (
    <Page
      title="API keys"
      subtitle="For programs and administrators"
      actions={
        <NewButton label="Create key" title="New API key">
          {(close) => <NewKey onCreated={reload} onClose={close} />}
        </NewButton>
      }
    >
      <LoadState of={{ data, error, reload }} />
      {filtered && data && <OnlySome what="keys that expire soon" found={rows.length} all={LIST} />}
      {rows.length > 0 && (
        <Table
          caption="Keys, newest first"
          columns={[...COLUMNS, revoke]}
          rows={rows}
          id={({ id }) => id}
        />
      )}
      {!filtered && active.length === 1 && (
        <Empty title="Only the console has a key">
          <p>
            Create one key per program, with only the scopes that it needs. You can then revoke a
            leaked key alone.
          </p>
        </Empty>
      )}
      {!filtered && ended.length > 0 && (
        <details class="more">
          <summary>Revoked and expired keys ({ended.length})</summary>
          <Table
            caption="Revoked and expired keys, newest first"
            columns={COLUMNS}
            rows={ended}
            id={({ id }) => id}
          />
        </details>
      )}
    </Page>
  );
}

function KeyState({ apiKey: { status, expiring_soon } }: { apiKey: Key }) {
  if (status === 'revoked') return <Status tone="bad">Revoked</Status>;
  if (status === 'expired') return <Status tone="neutral">Expired</Status>;
  return expiring_soon ? (
    <Status tone="warning">Expires soon</Status>
  ) : (
    <Status tone="good">Active</Status>
  );
}

function Expiry({ apiKey: { status, expires_at } }: { apiKey: Key }) {
  if (status === 'revoked') return null;
  return (
    <span class="route">
      {expires_at ? (
        <>
          {status === 'expired' ? 'Expired' : 'Until'} <Time at={expires_at} />
        </>
      ) : (
        'Never expires'
      )}
    </span>
  );
}

function RevokeButton({ apiKey: { id, name }, onRevoked }: { apiKey: Key; onRevoked: () => void }) {
  const notify = useToast();
  const { session } = useSession();
  async function revoke(): Promise<void> {
    await call('POST /v1/keys/{key_id}/revoke', { path: { key_id: id } });
    notify(`${isolated(name)} revoked`);
    onRevoked();
  }
  return (
    <ConfirmButton
      label="Revoke"
      target={name}
      title={`Revoke ${isolated(name)}?`}
      onConfirm={revoke}
    >
      <p>Requests with this key fail at once. You cannot undo this.</p>
      {id === session.key_id && (
        <p class="notice warning">You are signed in with this key. Revoking it signs you out.</p>
      )}
    </ConfirmButton>
  );
}
