-- version: 5
-- Claims due deliveries within the capacity, for a lease. `known` has the webhooks that the caller
-- has a capacity for, as `{"free": 4, "held": 2, "healthy": true}`: free places, and claims that it
-- holds. Any other webhook has `each` places, no claim, and is unproven. `healthy` and `unproven` are
-- the free places of all such webhooks together.
--
-- Each webhook's oldest delivery goes first. If the places are too few for all, the webhook with the
-- fewest claims goes first: those that it holds count, so a slow webhook gathers no more than others.
-- Webhooks with the same turn are in a random order: in a fixed one, those that hang could take all
-- places before the same others each time. A delivery waits until the first attempt of each older
-- event of the same transfer and webhook has ended.
--
-- The settings keep a plan that was made while nothing was pending: without them, it would read the
-- whole table when a million deliveries are.
create or replace function work.claim_deliveries(
  claim text, lease interval, clock timestamptz,
  healthy integer, unproven integer, each integer, known jsonb
) returns table (
  id text, claim_id text, webhook_id text, event_id text, body text, tries integer,
  claimed_at timestamptz, url text, secret_record text, previous_secret_record text,
  previous_until text
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  at timestamptz := coalesce(clock, now());
begin
  return query
    with recursive waiting as (
      (select webhook_id, due_at from work.pending_deliveries
        order by webhook_id, due_at limit 1)
      union all
      select next.* from waiting w cross join lateral (
        select webhook_id, due_at from work.pending_deliveries p
         where p.webhook_id > w.webhook_id
         order by p.webhook_id, p.due_at limit 1) next
    ),
    offered as (
      select waiting.webhook_id, due_at,
             coalesce((k ->> 'free')::integer, each) as free,
             coalesce((k ->> 'held')::integer, 0) as held,
             coalesce((k ->> 'healthy')::boolean, false) as proven
        -- a join without hash or merge would compare each webhook with each
        from waiting cross join lateral (select known -> webhook_id as k) of_caller
       where due_at <= at
    ),
    claimable as (
      -- one whose due deliveries are all claimed takes no share from the others
      select c.webhook_id, first.due_at, free, held, proven,
             case when proven then healthy else unproven end as total
        from offered c join work.outbox_webhooks w using (webhook_id)
       cross join lateral (
         select p.due_at from work.pending_deliveries p
          -- the index still holds sent rows: only the CTE waiting scans past them
          where p.webhook_id = c.webhook_id
            and p.due_at between c.due_at and at
            and (p.lease_until is null or p.lease_until < at)
          order by p.due_at, p.event_id limit 1) first
       where w.live and free > 0 and case when proven then healthy else unproven end > 0
    ),
    shared as (
      -- at most what an equal share of all places leaves: the rows that are read are locked
      select c.*,
             least(free, greatest(
               ceil(total::float8 / count(*) over of_kind),
               ceil((total + sum(held) over of_kind)::float8 / count(*) over of_kind) - held
             ))::integer as share,
             sum(free) over of_kind > total as scarce
        from claimable c window of_kind as (partition by proven)
    ),
    wanted as (
      select s.*, case when not scarce then share else (
               select count(*) from (
                 select from work.pending_deliveries p
                  where p.webhook_id = s.webhook_id and p.due_at between s.due_at and at
                    and (p.lease_until is null or p.lease_until < at)
                  order by p.due_at, p.event_id limit s.share) of_share) end as used
        from shared s
    ),
    capacity as (
      -- webhooks that may have more than their share also get what the others leave of theirs
      select w.*,
             case when used < share or share = free then share else least(free, share + greatest(0,
               ceil((total - sum(used) over of_kind)::float8
                    / count(*) filter (where used = share and share < free) over of_kind)
             ))::integer end as places
        from wanted w window of_kind as (partition by proven)
    ),
    found as materialized (
      select p.ctid, capacity.proven, capacity.total,
             capacity.held + row_number() over (
               partition by capacity.webhook_id order by p.due_at, p.event_id) as turn
        from capacity cross join lateral (
          select ctid, due_at, event_id from work.pending_deliveries p
           where p.webhook_id = capacity.webhook_id
             and p.due_at between capacity.due_at and at
             and (p.lease_until is null or p.lease_until < at)
             and not exists (
               select from work.pending_deliveries older
                where older.webhook_id = p.webhook_id and older.transfer_id = p.transfer_id
                  and older.event_id < p.event_id and older.tries = 0
                -- forces one index scan per row: the planner must not self-join all pending rows
                offset 0)
           order by p.due_at, p.event_id limit capacity.places for update skip locked) p
    ),
    due as (
      select ctid, total, row_number() over (partition by proven order by turn, random()) as place
        from found
    ),
    taken as (
      update work.pending_deliveries p
         set claim_id = claim, lease_until = at + lease
       -- the rows are locked, so their ctid cannot change
       where p.ctid = any(array(select ctid from due where place <= total))
      returning p.delivery_id, p.claim_id, p.webhook_id, p.event_id, p.tries
    )
    select d.id, t.claim_id, t.webhook_id, t.event_id, d.body, t.tries, at,
           w.state ->> 'url', w.state ->> 'secret_record', w.state #>> '{previous,secret_record}',
           w.state #>> '{previous,until}'
      from taken t
      join work.deliveries d on d.id = t.delivery_id
      join work.outbox_webhooks w on w.webhook_id = t.webhook_id;
end $$;
