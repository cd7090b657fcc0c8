import type { Sql } from '../../../adapters/postgres/connect.ts';
import { DELIVERED_KEPT_DAYS, FAILED_KEPT_DAYS } from '../../../domain/webhook.ts';

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
        ${`${DELIVERED_KEPT_DAYS} days`}::interval,
        ${`${FAILED_KEPT_DAYS} days`}::interval, ${CHANGED_AT_ONCE}) as purged`;
    purged = row.purged;
  }
}
