import { useState } from 'preact/hooks';
import type { BulkAction } from '../../../api/api-types.ts';
import { call } from '../../../api/client.ts';
import { useLoad } from '../../../api/use-load.ts';
import { Dialog } from '../../../components/dialogs/dialog.tsx';
import { ProblemNotice } from '../../../components/feedback/problem.tsx';
import type { Row } from '../columns.tsx';
import type { Filter } from '../filter.ts';
import { CHANGEABLE, labelOf } from '../states.tsx';
import { findMatching } from './bulk.ts';
import { BulkRun } from './bulk-run.tsx';

export const ACTIONS: Record<BulkAction, { label: string; effect: string }> = {
  retry: {
    label: 'Retry transfers',
    effect:
      'Waybill creates a new transfer for each one that failed or was cancelled. The new ' +
      'transfer links to the old one.',
  },
  cancel: {
    label: 'Cancel transfers',
    effect: 'Waybill cancels each pending or queued transfer. It ends without copying the file.',
  },
  set_priority: {
    label: 'Change priority',
    effect: 'Waybill changes the priority of each pending or queued transfer.',
  },
};

/** Rows that are selected, or the filter if all that match are. */
export type Target = { rows: Row[] } | { filter: Filter };

interface BulkDialogProps {
  action: BulkAction;
  target: Target;
  /** `sent` is true if something may have changed. */
  onClose: (sent: boolean) => void;
}

/** Says what an action will do to many transfers, carries it out, and shows the result. */
export function BulkDialog({ action, target, onClose }: BulkDialogProps) {
  const [sent, setSent] = useState(false);
  const { label, effect } = ACTIONS[action];
  const shared = { action, label, onSend: () => setSent(true) };
  return (
    <Dialog title={label} onClose={() => onClose(sent)}>
      {'rows' in target ? (
        <BulkRun
          {...shared}
          body={{ ids: target.rows.map(({ id }) => id) }}
          expected={target.rows.length}
        >
          <p>{effect}</p>
          <ExpectedRows action={action} rows={target.rows} />
        </BulkRun>
      ) : (
        <MatchingRun {...shared} filter={target.filter}>
          {effect}
        </MatchingRun>
      )}
    </Dialog>
  );
}

function ExpectedRows({ action, rows }: { action: BulkAction; rows: Row[] }) {
  const changeable = rows.filter(({ status }) => CHANGEABLE[action].includes(status)).length;
  const states = statesOf(action);
  return (
    <p>
      <strong>
        {changeable} of {rows.length} selected transfers
      </strong>{' '}
      {changeable === 1 ? 'is' : 'are'} {states} now.
      {changeable < rows.length && ' Waybill refuses the others, and says why.'}
    </p>
  );
}

interface MatchingRunProps {
  action: BulkAction;
  label: string;
  filter: Filter;
  onSend: () => void;
  children: string;
}

function MatchingRun({ action, filter, children, ...shared }: MatchingRunProps) {
  const { data, error, reload } = useLoad(
    (signal) =>
      findMatching(action, filter, (query) => call('GET /v1/transfers', { query, signal })),
    [action, JSON.stringify(filter)],
  );
  if (error) return <ProblemNotice error={error} retry={reload} />;
  if (!data)
    return (
      <p class="muted" role="status">
        Counting …
      </p>
    );
  const counts = data.counts.map(({ status, total, exact }) => (
    <li key={status}>
      <strong>
        {exact ? '' : 'At least '}
        {total.toLocaleString('en')} {labelOf(status).toLowerCase()}
      </strong>
    </li>
  ));
  return (
    <BulkRun
      {...shared}
      action={action}
      body={data.filter && { filter: data.filter }}
      expected={data.counts.reduce((sum, { total }) => sum + total, 0)}
    >
      <p>{children}</p>
      {data.filter ? (
        <>
          <p>These transfers match the filters, on all pages:</p>
          <ul class="bullets">{counts}</ul>
          <p>
            Waybill changes the oldest first, 1,000 at a time. You can stop in between.
            {action === 'retry' && ' It leaves out transfers that were retried before.'}
          </p>
        </>
      ) : (
        <p>
          <strong>No transfer that matches the filters is {statesOf(action)}.</strong>
        </p>
      )}
    </BulkRun>
  );
}

function statesOf(action: BulkAction): string {
  return CHANGEABLE[action].map((status) => labelOf(status).toLowerCase()).join(' or ');
}
