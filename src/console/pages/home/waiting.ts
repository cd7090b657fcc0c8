import { WAITING_STATUSES, waitingUntil } from '../../../domain/attention.ts';
import type { TransferListItem } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';

/** Transfers of the account in one state that were created long ago and do not move. */
export interface Waiting {
  /** Of the list that has them, and no others. */
  filter: { status: (typeof WAITING_STATUSES)[number]; to_date: string; sort: 'created_at' };
  total: number;
  /** Null if there are none. */
  oldest: TransferListItem | null;
}

export function findWaiting(signal: AbortSignal): Promise<Waiting[]> {
  const to_date = waitingUntil();
  return Promise.all(
    WAITING_STATUSES.map(async (status) => {
      const filter = { status, to_date, sort: 'created_at' } as const;
      const { data, pagination } = await call('GET /v1/transfers', {
        query: { ...filter, limit: 1 },
        signal,
      });
      return { filter, total: pagination.total, oldest: data[0] ?? null };
    }),
  );
}
