-- version: 3
-- Claims due deliveries within the capacity, for a lease. `known` names the webhooks that the
-- caller has a capacity for: free places, and 1 if the webhook is healthy. Any other webhook has
-- `each` places and is unproven. `healthy` and `unproven` are the places of all such webhooks together.
--
-- Each webhook's oldest delivery goes first. If the places are too few for all, the first delivery
-- of each webhook goes before the second of any. Webhooks with the same turn are in a random order:
-- in a fixed one, those that hang could take all places before the same others each time. A
-- delivery waits until the first attempt of each older event of the same transfer and webhook has
-- ended.
--
-- The settings keep a plan that was made while nothing was pending: without them, it would read the
-- whole table when a million deliveries are.
create or replace function work.claim_deliveries(
  claim text, lease interval, clock timestamptz,
  healthy integer, unproven integer, each integer,
  known text[], known_free integer[], known_healthy integer[]
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
    capacity as (
      -- at most its share of the total: the rows that are read are locked
      select w.webhook_id, waiting.due_at, t.*,
             least(
               coalesce(k.free, each),
               ceil(t.total::float8 / count(*) over (partition by t.kind))
             )::integer as places
        from waiting join work.outbox_webhooks w using (webhook_id)
        left join unnest(known, known_free, known_healthy) as k(webhook_id, free, kind)
          using (webhook_id)
        join (values (1, healthy), (0, unproven)) as t(kind, total)
          on t.kind = coalesce(k.kind, 0)
       where w.live and waiting.due_at <= at and coalesce(k.free, each) > 0 and t.total > 0
    ),
    found as materialized (
      select p.ctid, capacity.kind, capacity.total,
             row_number() over (
               partition by capacity.webhook_id order by p.due_at, p.event_id) as turn
        from capacity cross join lateral (
          select ctid, due_at, event_id from work.pending_deliveries p
           -- the index still holds sent rows: only the CTE waiting scans past them
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
      select ctid, total, row_number() over (partition by kind order by turn, random()) as place
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
