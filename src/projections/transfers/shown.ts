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

/** Returns transfers by id, and the position that the read model has reached, of one moment. */
export async function shownTransfers(
  sql: Sql,
  ids: string[],
): Promise<{ reached: bigint; transfers: Map<string, ShownTransfer> }> {
  const rows = await sql<({ reached: bigint; transfer_id: string | null } & ShownTransfer)[]>`
    select c.position as reached, t.transfer_id, t.revision, t.position, t.state,
           jsonb_build_object('account_id', account_id, 'status', status,
             'destination', destination) as columns
      from read.checkpoints c
      left join read.transfers t on t.transfer_id = any(${ids}::text[])
     where c.name = 'transfers'`;
  return {
    reached: rows[0]?.reached ?? 0n,
    transfers: new Map(
      rows.flatMap(({ reached: _, transfer_id, ...shown }) =>
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
