import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Outcome } from '../../adapters/webhooks/send.ts';
import { newId } from '../../domain/ids.ts';
import type { Room } from './lanes.ts';

/** How long a claim holds. An attempt takes ten seconds at most. */
const LEASE = '30 seconds';

/** A delivery that this process alone may attempt, with what its webhook is at that moment. */
export interface Claim {
  id: string;
  claim_id: string;
  webhook_id: string;
  event_id: string;
  body: string;
  /** Attempts made since it was last made pending. */
  tries: number;
  url: string;
  secret_record: string;
  previous_secret_record: string | null;
  previous_until: string | null;
}

/** Stands in for Postgres's clock in tests. */
export type Clock = () => Date;

/**
 * Claims what is due, for every webhook the oldest first, and where there is not room for all the first of
 * each webhook before the second of any; webhooks that are trusted have a room of their own. An event waits until the first attempts of all older ones of its
 * transfer have ended. `now`: when that was.
 */
export async function claimDeliveries(
  sql: Sql,
  { trusted, doubted, each, places }: Room,
  clock?: Clock,
): Promise<{ claims: Claim[]; now: string }> {
  const now = instant(sql, clock);
  const known = [...places.values()];
  const rows = await sql<(Claim & { now: string })[]>`
    with recursive waiting as (
      (select webhook_id, due_at from work.deliveries where status = 'pending' order by webhook_id, due_at limit 1)
      union all
      select next.* from waiting w cross join lateral (
        select webhook_id, due_at from work.deliveries d
         where d.status = 'pending' and d.webhook_id > w.webhook_id order by d.webhook_id, d.due_at limit 1) next
    ),
    room as (
      -- no more than its part of all that there is room for: what is looked at is locked
      select w.webhook_id, waiting.due_at, r.*, least(coalesce(p.free, ${each}), ceil(r.total::float8 / count(*) over (partition by r.trusted)))::integer as places
        from waiting join work.outbox_webhooks w using (webhook_id)
        left join unnest(${[...places.keys()]}::text[], ${known.map(({ free }) => free)}::integer[],
                         ${known.map((of) => Number(of.trusted))}::integer[]) as p(webhook_id, free, trusted) using (webhook_id)
        join (values (1, ${trusted}::integer), (0, ${doubted}::integer)) as r(trusted, total) on r.trusted = coalesce(p.trusted, 0)
       where w.live and waiting.due_at <= ${now} and coalesce(p.free, ${each}) > 0 and r.total > 0
    ),
    found as materialized (
      select d.ctid, room.trusted, room.total, row_number() over (partition by room.webhook_id order by d.due_at, d.event_id) as turn
        from room cross join lateral (
          select ctid, due_at, event_id from work.deliveries d
           -- the index still holds what has been sent: it is passed by once only
           where d.webhook_id = room.webhook_id and d.status = 'pending' and d.due_at between room.due_at and ${now}
             and (d.lease_until is null or d.lease_until < ${now})
             and not exists (
               select from work.deliveries older
                where older.webhook_id = d.webhook_id and older.transfer_id = d.transfer_id and older.event_id < d.event_id
                  and older.status = 'pending' and older.tries = 0
                -- a look at the index for each row: the planner must not join all that waits with itself
                offset 0)
           order by d.due_at, d.event_id limit room.places for update skip locked) d
    ),
    due as (select ctid, total, row_number() over (partition by trusted order by turn) as place from found)
    update work.deliveries d set claim_id = ${newId('clm')}, lease_until = ${now} + ${LEASE}::interval
      from work.outbox_webhooks w
     -- they are locked, so that is where they are
     where d.ctid = any(array(select ctid from due where place <= total)) and w.webhook_id = d.webhook_id
    returning d.id, d.claim_id, d.webhook_id, d.event_id, d.body, d.tries, ${now} as now,
      w.state ->> 'url' as url, w.state ->> 'secret_record' as secret_record,
      w.state #>> '{previous,secret_record}' as previous_secret_record, w.state #>> '{previous,until}' as previous_until`;
  return { claims: rows.toSorted((a, b) => (a.event_id < b.event_id ? -1 : 1)), now: rows[0]?.now ?? '' };
}

/** An attempt that has ended. */
export interface Attempt {
  claim: Pick<Claim, 'id' | 'claim_id'>;
  /** When it began. */
  at: string;
  outcome: Outcome;
  next: { status: 'delivered' | 'failed' } | { status: 'pending'; dueAt: string };
}

/** Records attempts. What comes of one whose claim no longer holds is told by whoever holds it now. */
export async function recordAttempts(sql: Queryable, attempts: Attempt[]): Promise<void> {
  const outcomes = attempts.map(({ outcome }) => outcome);
  await sql`
    with ended as (
      select e.*, (select ctid from work.deliveries where id = e.id and claim_id = e.claim_id) as place from unnest(
        ${attempts.map(({ claim }) => claim.id)}::text[],
        ${attempts.map(({ claim }) => claim.claim_id)}::text[],
        ${attempts.map(({ at }) => at)}::timestamptz[],
        ${outcomes.map(({ durationMs }) => durationMs)}::integer[],
        ${outcomes.map((outcome) => (outcome.type === 'error' ? null : outcome.statusCode))}::integer[],
        ${outcomes.map((outcome) => (outcome.type === 'delivered' ? null : outcome.error))}::text[],
        ${outcomes.map((outcome) => (outcome.type === 'error' ? null : outcome.responseBody))}::text[],
        ${attempts.map(({ next }) => next.status)}::text[],
        ${attempts.map(({ next }) => (next.status === 'pending' ? next.dueAt : null))}::timestamptz[]
      ) as e(id, claim_id, at, duration_ms, status_code, error, response_body, status, due_at)
    ),
    recorded as (
      update work.deliveries d set
        status = e.status,
        attempts = d.attempts + 1,
        tries = d.tries + 1,
        due_at = coalesce(e.due_at, d.due_at),
        ended_at = case when e.due_at is null then e.at + e.duration_ms * interval '1 millisecond' end,
        last_status_code = e.status_code,
        last_error = e.error,
        claim_id = null,
        lease_until = null
      -- whoever moves it from there meanwhile, has taken the claim away
      from ended e where d.ctid = e.place and d.claim_id = e.claim_id
      returning d.id, d.attempts, e.at, e.duration_ms, e.status_code, e.error, e.response_body
    )
    insert into work.delivery_attempts (delivery_id, number, at, duration_ms, status_code, error, response_body)
    select * from recorded`;
}

/** Gives back claims that were not attempted, or whose attempt was cut short. */
export async function releaseClaims(sql: Queryable, claims: Pick<Claim, 'id' | 'claim_id'>[]): Promise<void> {
  await sql`
    update work.deliveries d set claim_id = null, lease_until = null
      from unnest(${claims.map(({ id }) => id)}::text[], ${claims.map(({ claim_id }) => claim_id)}::text[]) as c(id, claim_id)
     where d.id = c.id and d.claim_id = c.claim_id`;
}

function instant(sql: Queryable, clock: Clock | undefined) {
  return clock ? sql`${clock()}::timestamptz` : sql`now()`;
}
