import type { Transaction } from '../../adapters/postgres/connect.ts';
import { loadCheckpoint } from '../checkpoint.ts';
import type { ConsumerDeps } from '../consumer.ts';
import { endOfLog } from '../newest-of-log.ts';
import type { Difference, Projection } from '../projection.ts';
import { LIVE_SCHEMA } from '../read-models.ts';
import { leavingAfter } from '../retention/removed-transfers.ts';
import type { Shadow } from './shadow.ts';

const DIFFERENCES_SHOWN = 20;

/**
 * Compares the live tables with the shadow tables, as of the last position that both have reached.
 * Either may be ahead of the other. `before` runs first, in the same transaction. Returns null if
 * the live tables are of another version.
 */
export function compare(
  { sql, store }: ConsumerDeps,
  { projection, schema, checkpoint }: Shadow,
  before: (tx: Transaction) => Promise<void> = async () => undefined,
): Promise<Difference[] | null> {
  return sql.begin('isolation level repeatable read', async (tx) => {
    await before(tx);
    const live = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
    const rebuilt = await loadCheckpoint(tx, 'read.checkpoints', checkpoint);
    // Tables of another version have other columns, so a comparison is impossible.
    if (!live || live.version !== rebuilt?.version) return null;
    const position = live.position < rebuilt.position ? live.position : rebuilt.position;
    // The join of about 100,000 rows fits into this memory. A larger one spills to disk.
    await tx`set local work_mem = '32MB'`;
    const end = await endOfLog(store, live.position);
    const beyond = checkpointBeyond(live.position, end);
    const reached = live.position < end ? live.position : end;
    beyond.push(...(await rowsBeyond(tx, projection, reached, DIFFERENCES_SHOWN - beyond.length)));
    const limit = DIFFERENCES_SHOWN - beyond.length;
    const leaving = await leavingAfter(store, position);
    const compared = { live: LIVE_SCHEMA, shadow: schema, position, limit, leaving };
    return [...beyond, ...(await projection.differences(tx, compared))];
  }) as Promise<Difference[] | null>;
}

/** Returns the difference of a checkpoint that no event has moved so far. */
function checkpointBeyond(position: bigint, end: bigint): Difference[] {
  if (position <= end) return [];
  const key = 'the checkpoint is beyond the end of the log';
  return [{ key, live: { position: Number(position) }, log: { position: Number(end) } }];
}

/**
 * Returns rows whose position the live tables have not reached. No event made them, and the
 * comparison would leave them out as rows that changed since.
 */
async function rowsBeyond(
  tx: Transaction,
  { tables }: Projection,
  reached: bigint,
  limit: number,
): Promise<Difference[]> {
  const columns = await tx<{ table: string; key: string }[]>`
    select c.table_name as table, k.column_name as key
      from information_schema.columns c
      join information_schema.columns k using (table_schema, table_name)
     where c.table_schema = ${LIVE_SCHEMA} and c.table_name = any(${tables as string[]}::text[])
       and c.column_name = 'position' and k.ordinal_position = 1`;
  const found: Difference[] = [];
  for (const { table, key } of columns)
    found.push(
      ...(await tx<Difference[]>`
        select concat_ws(' ', ${table}::text, ${tx(key)}, 'at position', position) as key,
               to_jsonb(t) as live, null as log
          from ${tx(LIVE_SCHEMA)}.${tx(table)} t where position > ${reached}
         limit ${limit - found.length}`),
    );
  return found;
}
