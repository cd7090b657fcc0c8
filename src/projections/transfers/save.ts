import type { Fragment, Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import { lines } from '../../adapters/postgres/json-array.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import type { Folded } from '../fold.ts';
import { type BatchChange, batchChanges, countChanges, type StateChange } from './counts.ts';

/** What a batch changes: rows of transfers, and what the counts follow. */
export interface RowChanges {
  /** Rows that the table does not have. The statement that saves them fails if it has one. */
  inserted: Folded<Transfer>[];
  updated: Folded<Transfer>[];
  changes: StateChange[];
}

export async function saveChanges(
  tx: Transaction,
  schema: string,
  changed: RowChanges,
): Promise<void> {
  if (changed.changes.length > 0)
    await tx`with moved as (select) ${writes(tx, schema, changed)} select`;
}

/** Returns the CTEs that save changes, if the CTE `moved` has a row. */
export function writes(
  sql: Queryable,
  schema: string,
  { inserted, updated, changes }: RowChanges,
): Fragment {
  const counts = countChanges(changes);
  // Not an update: its generic plan for the small table of a new rebuild would scan the large one.
  const onConflict = sql`
    on conflict (transfer_id) do update set
      status = excluded.status, revision = excluded.revision,
      position = excluded.position, state = excluded.state`;
  return sql`
    , changes as (
      select c.* from moved, unnest(
        ${counts.map(({ account }) => account)}::text[],
        ${counts.map(({ status }) => status)}::text[],
        ${counts.map(({ hour }) => hour)}::text[]::timestamptz[],
        ${counts.map(({ by }) => by)}::bigint[]) as c(account_id, status, hour, transfers)
    ),
    counted as (
      insert into ${sql(schema)}.transfer_counts as c (account_id, status, hour, transfers)
      select * from changes
      on conflict (account_id, hour, status) do update
         set transfers = c.transfers + excluded.transfers
    ),
    totalled as (
      insert into ${sql(schema)}.transfer_totals as t (status, transfers)
      select status, sum(transfers) from changes group by status
      on conflict (status) do update set transfers = t.transfers + excluded.transfers
    )
    ${rowWrites(sql, schema, inserted, 'inserted', sql``)}
    ${rowWrites(sql, schema, updated, 'updated', onConflict)}
    ${batchWrites(sql, schema, batchChanges(changes))}`;
}

/** Returns the CTE that saves rows; nothing without rows. */
function rowWrites(
  sql: Queryable,
  schema: string,
  rows: Folded<Transfer>[],
  name: string,
  onConflict: Fragment,
): Fragment {
  if (rows.length === 0) return sql``;
  const facts = rows.map(({ state }) => state.facts);
  // One line for each state: an array of texts would need an escape for every quote of a document.
  const states = rows.map(({ state }) => JSON.stringify(state));
  return sql`
    , ${sql(name)} as (
      insert into ${sql(schema)}.transfers as t
        (transfer_id, account_id, status, created_at, destination, revision, position, state)
      select transfer_id, account_id, status, created_at::timestamptz, destination, revision,
             position, state::json
        from moved, rows from (
          unnest(
            ${facts.map(({ transfer_id }) => transfer_id)}::text[],
            ${facts.map(({ account_id }) => account_id)}::text[],
            ${rows.map(({ state }) => state.status)}::text[],
            ${facts.map(({ created_at }) => created_at)}::text[],
            ${facts.map(({ destination }) => destination)}::text[],
            ${rows.map(({ revision }) => revision)}::integer[],
            ${rows.map(({ position }) => String(position))}::bigint[]),
          string_to_table(${lines(sql, states)}, E'\n')
        ) as c(transfer_id, account_id, status, created_at, destination, revision, position, state)
      ${onConflict}
    )`;
}

/** Returns the CTE that saves the counts of batches; nothing without batches. */
function batchWrites(sql: Queryable, schema: string, changes: BatchChange[]): Fragment {
  if (changes.length === 0) return sql``;
  return sql`
    , batches as (
      insert into ${sql(schema)}.batch_counts as c (batch_id, status, transfers, bytes)
      select n.* from moved, unnest(
        ${changes.map(({ batch }) => batch)}::text[],
        ${changes.map(({ status }) => status)}::text[],
        ${changes.map(({ by }) => by)}::bigint[],
        ${changes.map(({ bytes }) => bytes)}::bigint[]) as n
      on conflict (batch_id, status) do update set
        transfers = c.transfers + excluded.transfers, bytes = c.bytes + excluded.bytes
    )`;
}
