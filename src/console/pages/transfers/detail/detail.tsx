import { useEffect } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso/router';
import type { TransferDetail } from '../../../api/api-types.ts';
import { call } from '../../../api/client.ts';
import { phaseOf } from '../../../api/error-reasons.ts';
import { useLoad } from '../../../api/use-load.ts';
import { LoadState, ProblemNotice } from '../../../components/feedback/problem.tsx';
import { Page } from '../../../components/layout/page.tsx';
import { UnloadedPage } from '../../../components/layout/unloaded-page.tsx';
import { CopyableId } from '../../../components/values/copyable-id.tsx';
import { MarkedText } from '../../../components/values/marked-text.tsx';
import { seen } from '../../../components/values/names.tsx';
import { Time } from '../../../components/values/time.tsx';
import { many } from '../../../components/values/units.ts';
import { TransferActions } from '../actions.tsx';
import { CHANGEABLE, hasEnded, TransferState } from '../states.tsx';
import { useLiveTransfers } from '../use-live-transfers.ts';
import { Wait } from '../wait.tsx';
import { Attempts } from './attempts.tsx';
import { Moving } from './moving.tsx';
import { Retries } from './retries.tsx';
import { Timeline } from './timeline.tsx';
import { TransferFacts } from './transfer-facts.tsx';

/** The steps after a transfer have no live stream: it ends with the transfer. */
const AFTER_MS = 2_000;
/** Another mover may have taken over: the figures of the stream do not show that. */
const HISTORY_MS = 10_000;
const NEVER_MS = 2 ** 30;

/** One transfer: its progress, its history, and its state after any of its events. */
export function TransferPage() {
  const id = useRoute().params.id ?? '';
  const { query } = useLocation();
  const now = useLoad(
    (signal) => call('GET /v1/transfers/{transfer_id}', { path: { transfer_id: id }, signal }),
    [id],
    (shown) => (shown?.after?.state === 'pending' ? AFTER_MS : NEVER_MS),
  );
  const transfer = now.data;
  const history = useLoad(
    (signal) =>
      call('GET /v1/transfers/{transfer_id}/events', { path: { transfer_id: id }, signal }),
    [
      id,
      transfer?.status,
      transfer?.retry_count,
      transfer?.error?.occurred_at,
      transfer?.priority,
      transfer?.after?.state,
    ],
    transfer?.status === 'in_progress' ? HISTORY_MS : NEVER_MS,
  );
  useLiveTransfers(([latest]) => latest && now.set(latest), {
    transferId: id,
    open: transfer !== null && !hasEnded(transfer.status),
  });

  if (!transfer) {
    const list = { href: '/console/transfers', label: 'Show transfers' };
    return <UnloadedPage title="Transfer" error={now.error} retry={now.reload} list={list} />;
  }
  return (
    <Page
      title={seen(transfer.file_name)}
      subtitle={
        <>
          <span role="status">
            <TransferState status={transfer.status} />
          </span>
          <CopyableId id={transfer.id} what="transfer id" />
        </>
      }
      actions={<TransferActions transfer={transfer} onChange={now.reload} />}
    >
      <LoadState of={now} />
      {transfer.error && (
        <TransferProblem error={transfer.error} ended={transfer.status === 'failed'} />
      )}
      {CHANGEABLE.retry.includes(transfer.status) && <Retries id={id} />}
      {transfer.waiting_for && (
        <section class="notice">
          <h2>Waiting</h2>
          <p>
            <Wait for={transfer.waiting_for} />
          </p>
        </section>
      )}
      {transfer.status === 'in_progress' && <Moving transfer={transfer} />}
      {query.as_of === undefined ? (
        <TransferFacts title="Current state" transfer={transfer} />
      ) : (
        <PastState id={id} revision={query.as_of} />
      )}
      {history.data && <Attempts events={history.data.data} />}
      <Timeline history={history} transferId={id} chosen={query.as_of} />
    </Page>
  );
}

function TransferProblem({
  error,
  ended,
}: {
  error: NonNullable<TransferDetail['error']>;
  ended: boolean;
}) {
  const { message, advice, code, phase, attempts, occurred_at } = error;
  const during = phaseOf(phase);
  return (
    <section class={`notice ${ended ? 'danger' : 'warning'}`}>
      <h2>{ended ? 'Transfer failed' : 'Last attempt failed'}</h2>
      <p>
        <strong>{message}</strong>
      </p>
      <p>
        <MarkedText>{advice}</MarkedText>
      </p>
      <p class="muted">
        <code>{code}</code>
        {during && ` ${during}`}, after {many(attempts, 'attempt')}, <Time at={occurred_at} />
      </p>
    </section>
  );
}

function PastState({ id, revision }: { id: string; revision: string }) {
  const then = useLoad(
    async (signal) => ({
      // The state before stays visible until this one is loaded, with its own title.
      title: `State after revision ${revision}`,
      transfer: await call('GET /v1/transfers/{transfer_id}', {
        path: { transfer_id: id },
        query: { as_of: revision },
        signal,
      }),
    }),
    [id, revision],
  );
  useEffect(
    () => document.getElementById('past-state')?.scrollIntoView({ block: 'nearest' }),
    [revision],
  );
  return (
    <div id="past-state" class="past-state" aria-live="polite">
      {then.error ? (
        <ProblemNotice error={then.error} />
      ) : (
        then.data && <TransferFacts {...then.data} withState />
      )}
      <p>
        <a href={`/console/transfers/${id}`}>Show current state</a>
      </p>
    </div>
  );
}
