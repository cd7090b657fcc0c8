import type { BulkAction, BulkAnswer, BulkRequest, TransferList } from '../../../api/api-types.ts';
import { call, newIdempotencyKey, RequestFailed } from '../../../api/client.ts';
import type { Filter } from '../filter.ts';
import { CHANGEABLE, type TransferStatus } from '../states.tsx';

/** How long to wait before each repeat of a call whose answer was lost. */
const REPEATS_MS = [500, 2_000, 5_000];
const PASSING_STATUSES = [0, 429, 502, 503, 504];

/**
 * Returns a function that sends the next call of a bulk change. A call that failed is sent again
 * under its key, so the service carries it out once. Throws RequestFailed.
 */
export function bulkCalls(body: BulkRequest): () => Promise<BulkAnswer> {
  let idempotencyKey = newIdempotencyKey();
  let next = body;
  return async () => {
    const answer = await repeatedly(() =>
      call('POST /v1/transfers/bulk', { body: next, idempotencyKey }),
    );
    idempotencyKey = newIdempotencyKey();
    const { continue_from } = answer;
    if (continue_from !== null) next = { ...body, continue_from };
    return answer;
  };
}

async function repeatedly<T>(send: () => Promise<T>): Promise<T> {
  for (const wait of REPEATS_MS) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof RequestFailed && passes(error))) throw error;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  return send();
}

function passes({ problem: { status, code } }: RequestFailed): boolean {
  return PASSING_STATUSES.includes(status) || code === 'idempotency_in_progress';
}

export interface Matching {
  /** Transfers that match now, by state; at least so many if not exact. */
  counts: { status: TransferStatus; total: number; exact: boolean }[];
  /** The filter, without transfers that are created from now on. Null if none match. */
  filter: Filter | null;
}

/**
 * Counts the transfers that match a filter and that an action can change. The returned filter ends
 * with the newest of them: without an end, a retry that fails soon would match and be retried.
 */
export async function findMatching(
  action: BulkAction,
  filter: Filter,
  list: (query: Filter & { limit: number }) => Promise<TransferList>,
): Promise<Matching> {
  const statuses = CHANGEABLE[action].filter(
    (status) => filter.status === undefined || filter.status === status,
  );
  const lists = await Promise.all(statuses.map((status) => list({ ...filter, status, limit: 1 })));
  const newest = lists.flatMap(({ data }) => data.map(({ created_at }) => created_at)).sort();
  const to_date = newest.at(-1);
  return {
    counts: lists.flatMap(({ pagination: { total, total_is_exact = true } }, index) => {
      const status = statuses[index];
      return status && total > 0 ? [{ status, total, exact: total_is_exact }] : [];
    }),
    filter: to_date === undefined ? null : { ...filter, to_date },
  };
}
