import type { Sql } from '../../../adapters/postgres/connect.ts';

const DELIVERED_KEPT = '7 days';
/** For failed deliveries, which can be sent again, and for pending ones, counted from `due_at`. */
const OTHERS_KEPT = '30 days';
/**
 * Rows per statement of the purge, of the end of a webhook, and of a retry of all that failed. A
 * larger statement would delay deliveries.
 */
export const CHANGED_AT_ONCE = 5_000;

/**
 * Deletes expired deliveries with their attempts. Pending ones expire when their webhook stays
 * disabled. The events stay in the log, and a replay creates their deliveries again.
 */
export async function purgeDeliveries(sql: Sql): Promise<void> {
  for (let purged = CHANGED_AT_ONCE; purged === CHANGED_AT_ONCE; ) {
    const [row] = await sql<[{ purged: number }]>`
      select work.purge_deliveries(
        ${DELIVERED_KEPT}::interval, ${OTHERS_KEPT}::interval, ${CHANGED_AT_ONCE}) as purged`;
    purged = row.purged;
  }
}
