import { useRoute } from 'preact-iso/router';
import type { TransferEvent } from '../../../../domain/transfers/transfer.ts';
import type { Receipt } from '../../../api/api-types.ts';
import { call, RequestFailed } from '../../../api/client.ts';
import { EVENT_WORDS } from '../../../api/event-words.ts';
import { useKeyNames } from '../../../api/use-key-names.ts';
import { useLoad } from '../../../api/use-load.ts';
import { Page } from '../../../components/layout/page.tsx';
import { UnloadedPage } from '../../../components/layout/unloaded-page.tsx';
import { type Column, Table } from '../../../components/tables/table.tsx';
import { Actor } from '../../../components/values/actor.tsx';
import { Facts } from '../../../components/values/facts.tsx';
import { Path, seen } from '../../../components/values/names.tsx';
import { Time } from '../../../components/values/time.tsx';
import { bytes } from '../../../components/values/units.ts';
import { endsTransfer } from '../states.tsx';
import { checksOf } from './attempts.tsx';

const LOOK_AGAIN_MS = 5_000;

/** An event as the leaf of a receipt has it. */
type Leaf = TransferEvent & {
  id: string;
  revision: number;
  metadata: { actor: string; occurred_at: string };
};

/** The receipt of an ended transfer, to print: what moved, and what proves it. */
export function ReceiptPage() {
  const id = useRoute().params.id ?? '';
  const receipt = useLoad(
    async (signal) =>
      call('GET /v1/transfers/{transfer_id}/receipt', { path: { transfer_id: id }, signal }).catch(
        // The next checkpoint comes within a minute, and the page shows the receipt then.
        (error: unknown) => {
          if (error instanceof RequestFailed && error.problem.code === 'receipt_not_ready')
            return error.problem.detail;
          throw error;
        },
      ),
    [id],
    (data) => (typeof data === 'string' ? LOOK_AGAIN_MS : 2 ** 30),
  );
  const { data } = receipt;
  const transfer = { href: `/console/transfers/${id}`, label: 'Show the transfer' };
  if (data === null)
    return (
      <UnloadedPage title="Receipt" error={receipt.error} retry={receipt.reload} list={transfer} />
    );
  if (typeof data === 'string')
    return (
      <Page title="Receipt" subtitle={<span class="mono">{id}</span>}>
        <section class="notice" role="status">
          <p>{data}. This page shows the receipt as soon as it can be made.</p>
          <p>
            <a href={transfer.href}>{transfer.label}</a>
          </p>
        </section>
      </Page>
    );
  return (
    <Page
      title="Receipt"
      subtitle={<span class="mono">{id}</span>}
      actions={
        <>
          <button type="button" onClick={() => window.print()}>
            Print
          </button>
          <a class="button" href={`/v1/transfers/${id}/receipt`} download={`${id}.receipt.json`}>
            Download
          </a>
          <a class="button" href={transfer.href}>
            {transfer.label}
          </a>
        </>
      }
    >
      <Printed receipt={data} />
    </Page>
  );
}

const COLUMNS: Column<Leaf>[] = [
  { heading: 'Revision', kind: 'row', headed: true, cell: ({ revision }) => revision },
  { heading: 'Event', cell: ({ type }) => EVENT_WORDS[type] ?? type },
  { heading: 'Time', cell: ({ metadata }) => <Time at={metadata.occurred_at} /> },
  { heading: 'Actor', cell: ({ metadata }) => <code>{metadata.actor}</code> },
];

function Printed({ receipt }: { receipt: Receipt }) {
  const events = receipt.events.map(({ leaf }) => JSON.parse(leaf) as Leaf);
  const [, size, ...rest] = receipt.checkpoint.split('\n');
  const signer = rest.at(-2)?.split(' ')[1];
  return (
    <div class="receipt">
      <Moved events={events} />
      <section class="card">
        <h2>History</h2>
        <Table
          caption="Events, oldest first"
          columns={COLUMNS}
          rows={events}
          id={({ revision }) => revision}
        />
      </section>
      <section class="card">
        <h2>Proof</h2>
        <p>
          The log <code>{signer}</code> signed its first {size} events. These {events.length} events
          are among them, at the places {receipt.events.map(({ index }) => index).join(', ')}. The
          downloaded receipt proves it to anyone who has the public key.
        </p>
        <h3>Signed checkpoint</h3>
        <pre class="mono proof">{receipt.checkpoint}</pre>
        <h3>Public key</h3>
        <pre class="mono proof">{receipt.public_key}</pre>
      </section>
    </div>
  );
}

/** Formats a byte count with all of its digits, such as `128 MiB (134217728 bytes)`. */
function exactly(count: number): string {
  return count < 1_024 ? bytes(count) : `${bytes(count)} (${count} bytes)`;
}

/** What moved, from where to where, and who asked for it. */
function Moved({ events }: { events: Leaf[] }) {
  const keyNames = useKeyNames();
  const [created] = events;
  // The steps after a transfer come later.
  const end = events.find(({ type }) => endsTransfer(type));
  if (created?.type !== 'transfer.created' || !end) return null;
  const { data, metadata } = created;
  const completed = end.type === 'transfer.completed' ? end.data : null;
  return (
    <section class="card">
      <h2>{seen(data.file_name)}</h2>
      <Facts
        of={{
          Outcome: EVENT_WORDS[end.type],
          Error: end.type === 'transfer.failed' ? end.data.error.message : undefined,
          Source: (
            <code>
              <Path of={data.source} />
            </code>
          ),
          Destination: (
            <code>
              <Path of={data.destination} />
            </code>
          ),
          Size: completed ? exactly(completed.size_bytes) : undefined,
          'SHA-256': completed ? <code>{completed.checksum_sha256}</code> : undefined,
          Verified: completed ? checksOf(completed.verification) : undefined,
          Account: data.account_id,
          'Requested by': <Actor actor={metadata.actor} keyNames={keyNames} />,
          Requested: <Time at={metadata.occurred_at} />,
          Ended: <Time at={end.metadata.occurred_at} />,
        }}
      />
    </section>
  );
}
