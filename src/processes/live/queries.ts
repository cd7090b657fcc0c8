/*
 * Transfers as clients see them: the state of the read model, with the live figures of the job.
 */
import type { Fragment, Sql } from '../../adapters/postgres/connect.ts';
import { newId } from '../../domain/ids.ts';
import type { AttemptFigures, Transfer } from '../../domain/transfers/transfer.ts';
import { openStatuses } from '../../projections/transfers/statuses.ts';
import { type FigureColumns, toFigures } from '../dispatch/job-table/figures.ts';
import { jobs } from '../dispatch/job-table/jobs.ts';

/** Maximum of moving transfers, of the newest open ones, and of the newest ones. */
const MOVING_SHOWN = 500;
const NEWEST_SHOWN = 200;
const RECENT_SHOWN = 200;

export interface FoundTransfer {
  transfer: Transfer;
  /** Live figures. Null if the transfer is not moving. */
  moving: AttemptFigures | null;
}

export interface LiveTransfer extends FoundTransfer {
  /** True if it is moving, or is one of the newest open transfers. */
  shown: boolean;
  /** True if it is one of the newest transfers, open or ended, since the given time. */
  recent: boolean;
  /** True if it has a job: dispatch has processed its creation, and not its end. */
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
  recent: boolean;
  open: boolean;
  moving: boolean;
}

/**
 * Returns the transfers of an account, or of all if it is null, that are moving, the newest open
 * ones, the newest ones that were created at or after `since` (epoch ms), and those with these ids,
 * ended or not.
 */
export async function findLiveTransfers(
  sql: Sql,
  account: string | null,
  ids: string[],
  since: number,
): Promise<LiveTransfer[]> {
  const rows = await sql<LiveRow[]>`
    with shown as (
      ${account === null ? shownOfAll(sql) : shownOf(sql, account)}
    ),
    recent as (
      ${account === null ? recentOfAll(sql, since) : recentOf(sql, account, since)}
    )
    select t.state, shown.transfer_id is not null as shown,
           recent.transfer_id is not null as recent, j.transfer_id is not null as open,
           coalesce(t.status = 'in_progress' and j.claim_id = t.state ->> 'claim_id', false)
             as moving,
           j.transferred_bytes, j.size_bytes, j.speed_bps
      from (select transfer_id from shown union select transfer_id from recent
            union select unnest(${ids}::text[])) requested
      join read.transfers t using (transfer_id)
      left join shown using (transfer_id)
      left join recent using (transfer_id)
      -- Without the collation of its index, Postgres would scan the table of jobs.
      left join (${jobs(sql)}) j on j.transfer_id = t.transfer_id collate "default"
     ${account === null ? sql`` : sql`where t.account_id = ${account}`}
     order by t.transfer_id desc`;
  return rows.map(({ state, shown, recent, open, moving, ...figures }) => ({
    transfer: state,
    moving: moving ? toFigures(figures) : null,
    shown,
    recent,
    open,
  }));
}

function shownOfAll(sql: Sql): Fragment {
  return sql`
    (select transfer_id from (${jobs(sql)}) j
      where claim_id is not null order by lease_until desc limit ${MOVING_SHOWN})
    union
    (select transfer_id from (${jobs(sql)}) j order by transfer_id desc limit ${NEWEST_SHOWN})`;
}

/** The jobs have no index for the newest of an account. The read model has one for each status. */
function shownOf(sql: Sql, account: string): Fragment {
  return sql`
    (select transfer_id from (${jobs(sql)}) j
      where account_id = ${account} and claim_id is not null
      order by lease_until desc limit ${MOVING_SHOWN})
    union
    (select n.transfer_id
       from unnest(array[${openStatuses(sql)}]) as s(status)
      cross join lateral (
        select transfer_id, created_at from read.transfers
         where account_id = ${account} and status = s.status
         order by created_at desc, transfer_id desc limit ${NEWEST_SHOWN}) n
      order by n.created_at desc, n.transfer_id desc limit ${NEWEST_SHOWN})`;
}

function recentOfAll(sql: Sql, since: number): Fragment {
  return sql`
    -- an id begins with the time of its creation
    select transfer_id from read.transfers where transfer_id >= ${newId('txr', since)}
     order by transfer_id desc limit ${RECENT_SHOWN}`;
}

function recentOf(sql: Sql, account: string, since: number): Fragment {
  return sql`
    select transfer_id from read.transfers
     where account_id = ${account} and created_at >= ${new Date(since)}
     order by created_at desc, transfer_id desc limit ${RECENT_SHOWN}`;
}

/** Returns how many transfers of all accounts have ended so far. */
export async function countEnded(sql: Sql): Promise<number> {
  const [row] = await sql<[{ ended: number }]>`
    select coalesce(sum(transfers), 0)::float8 as ended from read.transfer_totals
     where ${hasEnded(sql)}`;
  return row.ended;
}

/** Returns how many transfers of an account that were created since an hour have ended so far. */
export async function countEndedOf(sql: Sql, account: string, since: Date): Promise<number> {
  const [row] = await sql<[{ ended: number }]>`
    select coalesce(sum(transfers), 0)::float8 as ended from read.transfer_counts
     where account_id = ${account} and hour >= ${since} and ${hasEnded(sql)}`;
  return row.ended;
}

/**
 * Returns the hour of the oldest open transfer of an account, or a day ago if that is earlier: the
 * read model may lack open transfers that are not so old.
 */
export async function oldestOpenHour(sql: Sql, account: string): Promise<Date> {
  const [row] = await sql<[{ hour: Date }]>`
    select least(min(hour), date_trunc('hour', now()) - interval '1 day') as hour
      from read.transfer_counts
     where account_id = ${account} and status in (${openStatuses(sql)})
       and transfers <> 0`;
  return row.hour;
}

function hasEnded(sql: Sql): Fragment {
  return sql`status not in (${openStatuses(sql)})`;
}
