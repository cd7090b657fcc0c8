import { useEffect, useRef, useState } from 'preact/hooks';
import { isOutdated, isTransient, isUnanswered, type RequestFailed } from '../../api/client.ts';
import type { Loaded } from '../../api/use-load.ts';

interface ProblemNoticeProps {
  error: RequestFailed;
  /** Adds a button, if the same request may succeed later. */
  retry?: () => void;
  /** An earlier attempt got no answer, so the service may have carried it out. */
  unsure?: boolean;
}

/** Shows an error beside its cause. */
export function ProblemNotice({ error, retry, unsure = false }: ProblemNoticeProps) {
  const { title, detail, request_id, transfer_ids } = error.problem;
  const outdated = isOutdated(error.problem);
  return (
    <div
      class={isUnanswered(error.problem) ? 'notice danger unanswered' : 'notice danger'}
      role="alert"
    >
      <p>
        <strong>{title}.</strong>{' '}
        {outdated
          ? 'It was saved elsewhere after you had opened it here. This form was not saved.'
          : detail}
      </p>
      {outdated && unsure && <p>An earlier click got no answer. It may have saved your changes.</p>}
      {transfer_ids && (
        <ul aria-label="Transfers">
          {transfer_ids.map((id) => (
            <li key={id}>
              <a class="mono" href={`/console/transfers/${id}`}>
                {id}
              </a>
            </li>
          ))}
        </ul>
      )}
      {request_id && <p class="muted mono">{request_id}</p>}
      {retry && isTransient(error.problem) && (
        <button type="button" onClick={retry}>
          Retry
        </button>
      )}
      {outdated && (
        // The browser asks before it drops what the user has typed.
        <button type="button" onClick={() => location.reload()}>
          Load the current version
        </button>
      )}
    </div>
  );
}

/**
 * Says that something still loads, or why it could not be loaded. Nothing once it is there. While
 * the service is away, the shell says so: what is there stays, and the rest still loads. What
 * follows it on the page is dimmed while it is `stale`.
 */
export function LoadState({
  of: { data, error, stale = false, reload },
  found,
}: {
  of: Pick<Loaded<unknown>, 'data' | 'error' | 'reload'> & { stale?: boolean };
  /** What a screen reader reads when the answer to another filter or page has come. */
  found?: string | undefined;
}) {
  if (error && !isUnanswered(error.problem)) return <ProblemNotice error={error} retry={reload} />;
  return (
    <>
      {found !== undefined && <Found stale={stale}>{found}</Found>}
      {(data === null || stale) && <Loading over={stale} />}
    </>
  );
}

/** Reads the text each time that new data replace `stale` ones. It is silent while a list is live. */
function Found({ stale, children }: { stale: boolean; children: string }) {
  const [said, setSaid] = useState('');
  const wasStale = useRef(stale);
  useEffect(() => {
    if (wasStale.current) setSaid(stale ? '' : children);
    wasStale.current = stale;
  }, [stale]);
  return (
    <p class="visually-hidden" role="status">
      {said}
    </p>
  );
}

/** Appears after a moment, so that a fast answer shows no flicker. `over` takes no room. */
export function Loading({ over = false }: { over?: boolean }) {
  return (
    <p class={over ? 'loading over' : 'loading muted'} role="status">
      Loading …
    </p>
  );
}
