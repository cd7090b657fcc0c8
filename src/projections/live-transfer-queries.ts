import type { Sql } from '../adapters/postgres/connect.ts';
import type { AttemptFigures, Transfer } from '../domain/transfer.ts';
import type { FoundTransfer } from './transfer-queries.ts';

/** Of those that move, and of the newest that are open. */
const MOVING_SHOWN = 500;
const NEWEST_SHOWN = 200;

export interface LiveTransfer extends FoundTransfer {
  /** It moves, or is one of the newest that have not ended. */
  shown: boolean;
  /** It has a to-do row: dispatch has not heard of its end. */
  open: boolean;
}

interface Row {
  state: Transfer;
  shown: boolean;
  open: boolean;
  moving: boolean;
  transferred_bytes: bigint;
  size_bytes: bigint | null;
  speed_bps: bigint | null;
}

/** What moves now and what was created last, of all accounts, and the transfers of these ids, ended or not. */
export async function findLiveTransfers(sql: Sql, ids: string[]): Promise<LiveTransfer[]> {
  const rows = await sql<Row[]>`
    with shown as (
      (select transfer_id from work.transfer_jobs where claim_id is not null order by lease_until desc limit ${MOVING_SHOWN})
      union
      (select transfer_id from work.transfer_jobs order by transfer_id desc limit ${NEWEST_SHOWN})
    )
    select t.state, shown.transfer_id is not null as shown, j.transfer_id is not null as open,
           coalesce(t.status = 'in_progress' and j.claim_id = t.state ->> 'claim_id', false) as moving,
           j.transferred_bytes, j.size_bytes, j.speed_bps
      from (select transfer_id from shown union select unnest(${ids}::text[])) asked
      join read.transfers t using (transfer_id)
      left join shown using (transfer_id)
      left join work.transfer_jobs j using (transfer_id)
     order by transfer_id desc`;
  return rows.map(({ state, shown, open, moving, ...figures }) => ({
    transfer: state,
    moving: moving ? toFigures(figures) : null,
    shown,
    open,
  }));
}

function toFigures({
  transferred_bytes,
  size_bytes,
  speed_bps,
}: Pick<Row, 'transferred_bytes' | 'size_bytes' | 'speed_bps'>): AttemptFigures {
  return {
    transferred_bytes: Number(transferred_bytes),
    size_bytes: size_bytes === null ? null : Number(size_bytes),
    speed_bps: speed_bps === null ? null : Number(speed_bps),
  };
}
