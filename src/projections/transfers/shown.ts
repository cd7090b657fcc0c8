import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';

/** A transfer as the read model has it. */
export interface ShownTransfer {
  revision: number;
  /** Position of its last event. */
  position: bigint;
  state: Transfer;
  /** By which it is found and listed. */
  columns: { account_id: string; status: string; destination: string };
}

/**
 * Returns transfers by id, of one moment, and the position that the read model had reached in which
 * log; null if it does not exist.
 */
export async function shownTransfers(
  sql: Sql,
  ids: string[],
): Promise<{ logId: string | null; reached: bigint; transfers: Map<string, ShownTransfer> }> {
  const rows = await sql<
    ({ log_id: string; reached: bigint; transfer_id: string | null } & ShownTransfer)[]
  >`
    select c.log_id, c.position as reached, t.transfer_id, t.revision, t.position, t.state,
           jsonb_build_object('account_id', account_id, 'status', status,
             'destination', destination) as columns
      from read.checkpoints c
      left join read.transfers t on t.transfer_id = any(${ids}::text[])
     where c.name = 'transfers'`;
  return {
    logId: rows[0]?.log_id ?? null,
    reached: rows[0]?.reached ?? 0n,
    transfers: new Map(
      rows.flatMap(({ log_id: _, reached: __, transfer_id, ...shown }) =>
        transfer_id === null ? [] : [[transfer_id, shown]],
      ),
    ),
  };
}

/**
 * Returns how many transfers the read model shows whose last event is at or before a position, or
 * beyond all that it has reached, without those with these ids.
 */
export async function countShown(sql: Sql, position: bigint, without: string[]): Promise<number> {
  const [row] = await sql<{ transfers: number }[]>`
    select count(*)::float8 as transfers from read.transfers
     where (position <= ${position}
            or position > (select position from read.checkpoints where name = 'transfers'))
       and transfer_id <> all(${without}::text[])`;
  return row?.transfers ?? 0;
}
