import type { Sql } from '../../adapters/postgres/connect.ts';

const DELIVERED_KEPT = '7 days';
/** Failed ones, which may yet be sent again; and those that wait for a webhook that stays disabled, since they were due. */
const OTHERS_KEPT = '30 days';
/** Rows of one statement: it must not hold up what is being delivered. */
const AT_ONCE = 5_000;

/** Deletes deliveries that have had their time, with their attempts. The events stay in the log, and a replay makes them anew. */
export async function purgeDeliveries(sql: Sql): Promise<void> {
  for (let purged = AT_ONCE; purged === AT_ONCE; ) {
    const [row] = await sql<{ purged: number }[]>`
      with expired as (
        (select id from work.deliveries where status = 'delivered' and ended_at < now() - ${DELIVERED_KEPT}::interval limit ${AT_ONCE})
        union all
        (select id from work.deliveries where status = 'failed' and ended_at < now() - ${OTHERS_KEPT}::interval limit ${AT_ONCE})
        union all
        (select id from work.deliveries where status = 'pending' and due_at < now() - ${OTHERS_KEPT}::interval limit ${AT_ONCE})
        limit ${AT_ONCE}
      ),
      purged as (delete from work.deliveries d using expired where d.id = expired.id returning d.id),
      attempts as (delete from work.delivery_attempts a using purged where a.delivery_id = purged.id)
      select count(*)::integer as purged from purged`;
    purged = row?.purged ?? 0;
  }
}
