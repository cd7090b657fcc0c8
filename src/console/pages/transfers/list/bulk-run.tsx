import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { BulkAction, BulkAnswer, BulkRequest, Priority } from '../../../api/api-types.ts';
import { endsSession, RequestFailed } from '../../../api/client.ts';
import { CloseButton } from '../../../components/dialogs/dialog.tsx';
import { ProblemNotice } from '../../../components/feedback/problem.tsx';
import { useKeptOpen } from '../../../components/forms/surrounding-dialog.ts';
import { useUnsent } from '../../../session.tsx';
import { PriorityField } from '../priority-field.tsx';
import { bulkCalls } from './bulk.ts';

const DONE: Record<BulkAction, string> = {
  retry: 'retried',
  cancel: 'cancelled',
  set_priority: 'changed',
};

/** Refusals that are listed. A browser takes long for tens of thousands. */
const LISTED = 100;

interface Tally {
  done: number;
  refused: number;
  /** The first ones. */
  refusals: BulkAnswer['refusals'];
}

interface BulkRunProps {
  action: BulkAction;
  /** Text of the button. */
  label: string;
  /** What to change. Null if there is nothing. */
  body: Pick<BulkRequest, 'ids' | 'filter'> | null;
  /** Transfers that the change may reach. */
  expected: number;
  onSend: () => void;
  /** Says what will happen. */
  children: ComponentChildren;
}

/** Sends the calls of a bulk change until all are changed or the user stops, and counts. */
export function BulkRun({ action, label, body, expected, onSend, children }: BulkRunProps) {
  const [state, setState] = useState<'ready' | 'running' | 'stopped' | 'ended'>('ready');
  const [priority, setPriority] = useState<Priority>('high');
  const [tally, setTally] = useState<Tally>({ done: 0, refused: 0, refusals: [] });
  const { done, refused, refusals } = tally;
  const [error, setError] = useState<RequestFailed | null>(null);
  const [stopping, setStopping] = useState(false);
  const stop = useRef(false);
  const next = useRef<ReturnType<typeof bulkCalls> | null>(null);
  const result = useRef<HTMLDivElement>(null);
  useKeptOpen(state === 'running');
  useUnsent(state !== 'ready');
  useEffect(() => {
    if (state !== 'ready') result.current?.focus();
  }, [state]);
  useEffect(
    () => () => {
      stop.current = true;
    },
    [],
  );

  async function run(): Promise<void> {
    next.current ??= bulkCalls({
      ...body,
      action,
      ...(action === 'set_priority' && { priority }),
    });
    stop.current = false;
    setStopping(false);
    setError(null);
    setState('running');
    onSend();
    try {
      for (;;) {
        const answer = await next.current();
        setTally((before) => ({
          done: before.done + answer.done,
          refused: before.refused + answer.refusals.length,
          refusals: [...before.refusals, ...answer.refusals].slice(0, LISTED),
        }));
        if (!answer.has_more) return setState('ended');
        if (stop.current) return setState('stopped');
      }
    } catch (failure) {
      if (!(failure instanceof RequestFailed)) throw failure;
      setError(failure);
      setState('stopped');
    }
  }

  if (state === 'ready') {
    return (
      <>
        <div class="prose">{children}</div>
        {action === 'set_priority' && <PriorityField value={priority} onChange={setPriority} />}
        <div class="actions">
          <button
            type="button"
            class={action === 'cancel' ? 'danger' : 'primary'}
            disabled={body === null}
            onClick={() => void run()}
          >
            {label}
          </button>
          <CloseButton first={action === 'cancel'}>Close</CloseButton>
        </div>
      </>
    );
  }
  const counts = [
    `${done.toLocaleString('en')} ${DONE[action]}`,
    ...(refused > 0 ? [`${refused.toLocaleString('en')} refused`] : []),
  ].join(', ');
  return (
    <>
      <div ref={result} class="prose" role="status" tabIndex={-1}>
        {state === 'running' && (
          <progress
            class="whole"
            aria-label={label}
            max={expected}
            value={body?.filter && done + refused}
          />
        )}
        <p>
          {state === 'stopped' && 'Stopped. '}
          <strong>{counts}</strong>
          {state !== 'ended' && ` of up to ${expected.toLocaleString('en')}`}.
          {state === 'stopped' && !error && ' The others stay as they are.'}
        </p>
      </div>
      {error &&
        // What the service says of it is for programs: by now, the user has signed in again.
        (endsSession(error.problem) ? (
          <p class="notice warning">The session ended before the others.</p>
        ) : (
          <ProblemNotice error={error} />
        ))}
      {error && <p>Continue repeats the last call, which Waybill carries out once.</p>}
      {refusals.length > 0 && (
        <ul class="refusals" aria-label="Refused transfers">
          {refusals.map(({ id, detail }) => (
            <li key={id}>
              <a class="mono" href={`/console/transfers/${id}`}>
                {id}
              </a>
              <span>{detail}</span>
            </li>
          ))}
        </ul>
      )}
      {refused > LISTED && (
        <p class="muted">
          The first {LISTED} of {refused.toLocaleString('en')} refused transfers
        </p>
      )}
      <div class="actions">
        {state === 'running' && body?.filter && (
          <button
            type="button"
            disabled={stopping}
            onClick={() => {
              stop.current = true;
              setStopping(true);
            }}
          >
            Stop
          </button>
        )}
        {state === 'stopped' && (
          <button type="button" class="primary" onClick={() => void run()}>
            Continue
          </button>
        )}
        <CloseButton>Close</CloseButton>
      </div>
    </>
  );
}
