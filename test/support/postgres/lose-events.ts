import type { Sql } from '../../../src/adapters/postgres/connect.ts';

/** Takes the last events from the log, as a failover to a standby that lacks them does. */
export async function loseEventsAfter(sql: Sql, position: bigint): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`delete from log.events where position > ${position}`;
    await tx`update log.head set position = ${position}`;
  });
}
