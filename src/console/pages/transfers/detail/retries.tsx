import { call } from '../../../api/client.ts';
import { useLoad } from '../../../api/use-load.ts';
import { Time } from '../../../components/values/time.tsx';
import { addressOf } from '../filter.ts';
import { TransferState } from '../states.tsx';

/** The newest retry may move while the page is open. */
const LOOK_MS = 5_000;

/** Links to the newest retry of a transfer, and to all of them. Empty if it was never retried. */
export function Retries({ id }: { id: string }) {
  const { data } = useLoad(
    (signal) => call('GET /v1/transfers', { query: { retry_of: id, limit: 1 }, signal }),
    [id],
    LOOK_MS,
  );
  const newest = data?.data[0];
  if (!newest) return null;
  const { total } = data.pagination;
  const all = addressOf({ filter: { retry_of: id }, order: '-created_at', limit: undefined });
  return (
    <section class="notice">
      <h2>Retried</h2>
      <p>
        <a class="mono" href={`/console/transfers/${newest.id}`}>
          {newest.id}
        </a>{' '}
        <TransferState status={newest.status} /> <Time at={newest.created_at} />
      </p>
      <p>
        <a href={all}>{total === 1 ? 'Show retry in the list' : `Show all ${total} retries`}</a>
      </p>
    </section>
  );
}
