import type { Sql, Transaction } from '../../../src/adapters/postgres/connect.ts';
import { canonicalJson } from '../../../src/domain/events/canonical-json.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';

/** An event as it is stored, or as an export has it. */
export type GivenEvent = Omit<StoredEvent, 'position'> & { position: bigint | string };

/** Changes the embedded log as a superuser, whom its triggers do not stop. */
export function changeLog(sql: Sql, change: (tx: Transaction) => Promise<unknown>): Promise<void> {
  return sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await change(tx);
  });
}

/**
 * Replaces all events of the embedded log, within `changeLog`. `prefix` is that of the
 * installation, `head` what the log says of its end.
 */
export async function replaceLog(
  tx: Transaction,
  prefix: string,
  events: readonly GivenEvent[],
  head: bigint,
): Promise<void> {
  const rows = events.map(({ position, stream, data, metadata, leaf_hash: _, ...event }) => ({
    ...event,
    position: String(position),
    stream: prefix + stream,
    data: asWritten(data),
    metadata: asWritten(metadata),
  }));
  await tx`delete from log.events`;
  await tx`
    insert into log.events
      (position, stream, revision, id, type, schema_version, data, metadata)
    select * from jsonb_to_recordset(${tx.json(rows)})
      as r(position bigint, stream text, revision integer, id text, type text,
           schema_version integer, data text, metadata text)`;
  await tx`update log.head set position = ${head}`;
}

/** Returns the text that Waybill writes, as a careful attacker does. */
function asWritten(content: unknown): string {
  try {
    return canonicalJson(content as object);
  } catch {
    return JSON.stringify(content);
  }
}
