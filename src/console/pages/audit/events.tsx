import type { AuditItem } from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { DialogButton } from '../../components/dialogs/dialog-button.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Time } from '../../components/values/time.tsx';
import { useSession } from '../../session.tsx';
import { ADDRESS } from './filters.tsx';

const EVENT: Column<AuditItem> = {
  heading: 'Event',
  kind: 'row',
  cell: ({ title, type }) => (
    <>
      <strong>{title}</strong>
      <span class="route mono type">{type}</span>
    </>
  ),
};
const ACTOR: Column<AuditItem> = {
  heading: 'Actor',
  cell: (event) => <Actor event={event} />,
};
const TIME: Column<AuditItem> = {
  heading: 'Time',
  cell: ({ occurred_at }) => <Time at={occurred_at} />,
};
const DETAILS: Column<AuditItem> = {
  heading: 'Details',
  cell: (event) => <Details event={event} />,
};

const COLUMNS: Column<AuditItem>[] = [
  EVENT,
  {
    heading: 'Subject',
    cell: ({ subject, account }) => <Subject of={subject} account={account} />,
  },
  ACTOR,
  TIME,
  { heading: 'Account', cell: ({ account }) => <span class="whole">{account ?? 'All'}</span> },
  DETAILS,
];

/** For the events of one subject, on its page. An error is shown as its message. */
const COLUMNS_OF_ONE: Column<AuditItem>[] = [
  {
    ...EVENT,
    cell: ({ title, data }) => (
      <>
        <strong>{title}</strong>
        <span class="reason">{errorOf(data)}</span>
      </>
    ),
  },
  ACTOR,
  TIME,
  DETAILS,
];

interface AuditTableProps {
  events: AuditItem[];
  /** All are of the subject of the page. */
  ofOne?: boolean;
}

export function AuditTable({ events, ofOne = false }: AuditTableProps) {
  return (
    <Table
      caption="Events, newest first"
      columns={ofOne ? COLUMNS_OF_ONE : COLUMNS}
      rows={events}
      id={({ position, revision }) => `${position}-${revision}`}
    />
  );
}

function errorOf({ error }: AuditItem['data']): string {
  const message = typeof error === 'object' && error !== null && 'message' in error;
  return message ? String(error.message) : '';
}

interface SubjectProps {
  of: AuditItem['subject'];
  account: string | null;
}

/** Links to the page of a subject, if this session may open it. */
function Subject({ of: { kind, id, name }, account }: SubjectProps) {
  const { session } = useSession();
  const transfer = `/console/transfers/${id}`;
  const pages = {
    transfer,
    batch: `/console/batches/${id}`,
    // Of exports and sign-ins there is no page.
    access: id.startsWith('txr_') ? transfer : null,
    endpoint: `/console/settings/endpoints/${id}`,
    webhook: `/console/webhooks/${id}`,
    key: '/console/settings/api-keys',
    flow: `/console/flows/${id}`,
    // The log itself has no page.
    log: null,
  };
  // Transfers and webhooks of another account are not found in this one.
  const may =
    kind === 'key'
      ? session.scopes.includes('admin')
      : (account ?? session.account) === session.account;
  const page = pages[kind];
  return (
    <span>
      <span class="clamp" title={name ?? undefined}>
        {may && page !== null ? (
          <a class="target" href={page}>
            {name ?? id}
          </a>
        ) : (
          (name ?? id)
        )}
      </span>
      {name !== null && <span class="route mono">{id}</span>}
    </span>
  );
}

/** Names the actor, links to all that it did, and says from which address it acted. */
function Actor({ event: { actor, actor_name, client_address } }: { event: AuditItem }) {
  return (
    <span>
      <a
        class="target"
        href={urlOf(ADDRESS, { query: { actor } })}
        title={`All events of ${actor}`}
      >
        {actor_name ?? actor}
      </a>
      {actor_name !== null && <span class="route mono">{actor}</span>}
      {client_address !== null && (
        <span class="route">
          from <span class="mono">{client_address}</span>
        </span>
      )}
    </span>
  );
}

function Details({ event }: { event: AuditItem }) {
  const { id, title, occurred_at, actor, client_address, stream, revision, position, data } = event;
  return (
    <DialogButton
      label={
        <>
          Details<span class="visually-hidden"> of {title}</span>
        </>
      }
      title={title}
    >
      {() => (
        <>
          <Facts
            of={{
              Time: <Time at={occurred_at} />,
              Actor: <code>{actor}</code>,
              Address: client_address && <code>{client_address}</code>,
              'Event id': <code>{id}</code>,
              Stream: <code>{stream}</code>,
              Revision: revision,
              Position: position,
            }}
          />
          <h3>Data</h3>
          <pre>
            <code>{JSON.stringify(data, null, 2)}</code>
          </pre>
          <div class="actions">
            <CloseButton>Close</CloseButton>
          </div>
        </>
      )}
    </DialogButton>
  );
}
