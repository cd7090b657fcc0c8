import type { RequestFailed } from '../api/client.ts';

/** Shows an error beside its cause. `retry` adds a button. */
export function ProblemNotice({ error, retry }: { error: RequestFailed; retry?: () => void }) {
  const { title, detail, request_id, transfer_ids } = error.problem;
  return (
    <div class="notice danger" role="alert">
      <p>
        <strong>{title}.</strong> {detail}
      </p>
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
      {retry && (
        <button type="button" onClick={retry}>
          Retry
        </button>
      )}
    </div>
  );
}
