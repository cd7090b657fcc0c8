import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { isEnded, type Transfer } from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import { checkpointPosition } from '../../projections/checkpoint.ts';
import { openStatuses } from '../../projections/transfers/statuses.ts';
import { currentHolds } from '../endpoints/sign-in-holds.ts';
import { AHEAD_COUNTED_TO, explainWait, type WaitFacts } from './explain-wait.ts';
import { jobs } from './job-table/jobs.ts';
import { dueTransfers, LEASE_SECONDS, starvedTransfers } from './job-table/leases.ts';
import { moverSlots } from './live-movers.ts';
import { placesOfEndpoints } from './places.ts';

/** A mover renews each second. A lease without a renewal for this long may be of a lost mover. */
const UNRENEWED_S = 5;

/** Returns what a transfer waits for. Null if it moves, has ended or is not in the read model. */
export async function findWait(sql: Sql, transfer: Transfer): Promise<WaitingFor | null> {
  return (await findWaits(sql, [transfer])).get(transfer.facts.transfer_id) ?? null;
}

/**
 * Does the same for several transfers, in one query. Returns the waits by transfer id.
 *
 * It reads what a claim reads (`work.claim_transfers`): jobs, claims, endpoints and movers.
 */
export async function findWaits(sql: Sql, transfers: Transfer[]): Promise<Map<string, WaitingFor>> {
  const open = transfers.filter((transfer) => !isEnded(transfer));
  if (open.length === 0) return new Map();
  const ids = open.map(({ facts }) => facts.transfer_id);
  const rows = await sql<WaitFacts[]>`
    with ${askedTransfers(sql, ids)},
    ${placesOfEndpoints(sql)},
    ${keptPlaces(sql)},
    ${queueForSlots(sql)}
    select a.transfer_id, a.status, a.has_job, a.job_status, a.claimed, a.lease_until, a.lapsed,
           a.outdated, a.due_at, a.due, s.movers, s.busy, s.dispatched, l.ahead, e.endpoints,
           a.account_id <> (select account_id from next) as others_first
      from asked a
     cross join state s
      left join lines l using (transfer_id)
     cross join lateral (${endpointsOfTransfer(sql)}) e`;
  const waits = new Map<string, WaitingFor>();
  for (const row of rows) {
    const wait = explainWait(row);
    if (wait) waits.set(row.transfer_id, wait);
  }
  return waits;
}

/** Returns the CTE `asked`: the transfers with their jobs. */
function askedTransfers(sql: Queryable, ids: string[]): Fragment {
  return sql`
    asked as materialized (
      select t.transfer_id, t.account_id, t.status,
             j.transfer_id is not null as has_job, j.status as job_status,
             j.claim_id is not null as claimed, j.lease_until,
             j.lease_until < now() + ${LEASE_SECONDS - UNRENEWED_S} * interval '1 second' as lapsed,
             j.revision > t.revision as outdated,
             j.due_at, j.due_at <= now() as due, j.source_endpoint_id, j.destination_endpoint_id
        from read.transfers t
        -- Without the collation of its index, Postgres would scan the table of jobs.
        left join (${jobs(sql)}) j on j.transfer_id = t.transfer_id collate "default"
       where t.transfer_id = any(${ids}::text[])
         and t.status in (${openStatuses(sql)})
    )`;
}

/** Returns the CTE `starved`: the transfers for which a claim keeps the last place of an endpoint. */
function keptPlaces(sql: Queryable): Fragment {
  return sql`
    starved as materialized (
      select s.* from (
        select jsonb_object_agg(endpoint_id, places - in_use) as room,
               coalesce(array_agg(endpoint_id) filter (where paused), '{}') as unusable
          from places
        having exists (
          select from asked join places
                   on endpoint_id in (source_endpoint_id, destination_endpoint_id)
           where not claimed and due and places - in_use = 1)) n
       cross join lateral (${starvedTransfers(sql, sql`n.room`, sql`n.unusable`)}) s
    )`;
}

/**
 * Returns CTEs about slots: `movers` and `state` say whether a mover runs and has a free slot,
 * `next` which account gets the next one, `lines` how many transfers of its account precede each.
 */
function queueForSlots(sql: Queryable): Fragment {
  return sql`
    movers as materialized (
      ${moverSlots(sql)}
    ),
    slots as (
      select coalesce(sum(slots), 0) as total,
             (select count(*) from claims join movers on process_id = claimed_by) as taken
        from movers
    ),
    state as materialized (
      select exists (select from movers) as movers, total <= taken as busy,
             coalesce((${checkpointPosition(sql, 'work.checkpoints', 'dispatch')})
               >= (${checkpointPosition(sql, 'read.checkpoints', 'transfers')}), false)
               as dispatched
        from slots
    ),
    -- Accounts whose transfers wait for nothing but a slot. Empty unless all slots are taken.
    queueing as materialized (
      select distinct account_id from asked
       where not claimed and due and (select busy from state)
         and destination_endpoint_id <> all((select ids from closed)::text[])
         and coalesce(source_endpoint_id, '') <> all((select ids from closed)::text[])
    ),
    due as materialized (
      select d.* from (select where exists (select from queueing)) asked_for cross join lateral (
        ${dueTransfers(sql, sql`(select ids from closed)::text[]`, AHEAD_COUNTED_TO)}) d
    ),
    -- The account that gets the next slot.
    next as materialized (
      select account_id from due
       order by (select count(*) from claims c where c.account_id = due.account_id), rank limit 1
    ),
    lines as materialized (
      select transfer_id, ahead
        from (select transfer_id, (row_number() over (partition by account_id order by rank))::integer
                                  - 1 as ahead
                from due where account_id in (select account_id from queueing)) numbered
       where ahead < ${AHEAD_COUNTED_TO}
    )`;
}

/** Returns a query for the endpoints of a transfer `a`, as its account may see them. */
function endpointsOfTransfer(sql: Queryable): Fragment {
  return sql`
    select coalesce(jsonb_agg(jsonb_build_object(
             'known', e.endpoint_id is not null,
             'id', case when may_use then u.id end,
             'name', case when may_use then e.name end,
             'paused', coalesce(p.paused, false), 'in_use', p.in_use,
             'limit', p.places,
             'kept', coalesce(p.places - p.in_use = 1, false) and exists (
               select from starved s
                where u.id = any(s.scarce) and s.transfer_id <> a.transfer_id),
             'held_until', h.until) order by u.side), '[]')
             as endpoints
      from unnest(array[a.source_endpoint_id, a.destination_endpoint_id])
             with ordinality u(id, side)
      left join places p on p.endpoint_id = u.id
      left join read.endpoints e on e.endpoint_id = u.id
      left join (${currentHolds(sql)}) h
        on h.endpoint_id = u.id
       and h.credentials_record = e.state ->> 'credentials_record'
     cross join lateral (
        select coalesce(e.state -> 'accounts' in ('null')
                     or e.state -> 'accounts' ? a.account_id, false) as may_use) m
     where u.id is not null`;
}
