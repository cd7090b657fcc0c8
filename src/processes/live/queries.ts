/*
 * Transfers as clients see them: the state of the read model, with the live figures of the job.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { AttemptFigures, Transfer } from '../../domain/transfer.ts';
import { type FigureColumns, jobs, toFigures } from '../dispatch/table.ts';

/** Maximum of moving transfers, and of the newest open ones. */
const MOVING_SHOWN = 500;
const NEWEST_SHOWN = 200;

export interface FoundTransfer {
  transfer: Transfer;
  /** Live figures. Null if the transfer is not moving. */
  moving: AttemptFigures | null;
}

export interface LiveTransfer extends FoundTransfer {
  /** True if it is moving, or is one of the newest open transfers. */
  shown: boolean;
  /** True if it has a job: dispatch has not processed its end. */
  open: boolean;
}

/** Returns a transfer of an account with its live figures, or null if there is none. */
export async function findTransfer(
  sql: Sql,
  accountId: string,
  transferId: string,
): Promise<FoundTransfer | null> {
  const [row] = await sql<({ state: Transfer; moving: boolean } & FigureColumns)[]>`
    select t.state, j.claim_id is not null as moving, j.transferred_bytes, j.size_bytes, j.speed_bps
      from read.transfers t
      left join (${jobs(sql)}) j
        on j.transfer_id = t.transfer_id and t.status = 'in_progress'
       and j.claim_id = t.state ->> 'claim_id'
     where t.transfer_id = ${transferId} and t.account_id = ${accountId}`;
  return row ? { transfer: row.state, moving: row.moving ? toFigures(row) : null } : null;
}

interface LiveRow extends FigureColumns {
  state: Transfer;
  shown: boolean;
  open: boolean;
  moving: boolean;
}

/**
 * Returns the moving and the newest open transfers of all accounts, and the transfers with these
 * ids, ended or not.
 */
export async function findLiveTransfers(sql: Sql, ids: string[]): Promise<LiveTransfer[]> {
  const rows = await sql<LiveRow[]>`
    with shown as (
      (select transfer_id from (${jobs(sql)}) j
        where claim_id is not null order by lease_until desc limit ${MOVING_SHOWN})
      union
      (select transfer_id from (${jobs(sql)}) j order by transfer_id desc limit ${NEWEST_SHOWN})
    )
    select t.state, shown.transfer_id is not null as shown, j.transfer_id is not null as open,
           coalesce(t.status = 'in_progress' and j.claim_id = t.state ->> 'claim_id', false)
             as moving,
           j.transferred_bytes, j.size_bytes, j.speed_bps
      from (select transfer_id from shown union select unnest(${ids}::text[])) requested
      join read.transfers t using (transfer_id)
      left join shown using (transfer_id)
      left join (${jobs(sql)}) j using (transfer_id)
     order by transfer_id desc`;
  return rows.map(({ state, shown, open, moving, ...figures }) => ({
    transfer: state,
    moving: moving ? toFigures(figures) : null,
    shown,
    open,
  }));
}
