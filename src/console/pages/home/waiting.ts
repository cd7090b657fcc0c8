import { call } from '../../api/client.ts';
import type { TransferListItem } from '../../api/operations.ts';

/** A transfer that waits for longer needs a look: a retry, a paused endpoint, or a long queue. */
export const WAITED_MINUTES = 15;

/** The transfers of the account that were created long ago and do not move. */
export interface Waiting {
  total: number;
  /** Null if there are none. */
  oldest: TransferListItem | null;
}

export async function findWaiting(signal: AbortSignal): Promise<Waiting> {
  const to_date = new Date(Date.now() - WAITED_MINUTES * 60_000).toISOString();
  const lists = await Promise.all(
    (['pending', 'queued'] as const).map((status) =>
      call('GET /v1/transfers', {
        query: { status, to_date, sort: 'created_at', limit: 1 },
        signal,
      }),
    ),
  );
  const [oldest = null] = lists
    .flatMap(({ data }) => data)
    .toSorted((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at));
  return { total: lists.reduce((sum, { pagination }) => sum + pagination.total, 0), oldest };
}
