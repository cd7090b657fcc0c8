-- version: 4
-- Deletes up to `at_once` expired deliveries with their attempts, and returns how many it deleted.
-- Delivered ones expire after `delivered_kept`. Failed ones, which can be sent again, and pending
-- ones, counted from `due_at`, expire after `others_kept`. Skips locked rows and never waits, so it
-- may lock in any order.
--
-- Also deletes pending rows without a delivery. They hold back the webhook's other deliveries. Each
-- is claimed, and its lease expires. Claims take the oldest rows of a webhook, so only the oldest
-- ones are read: millions may be pending, and no index has the leases.
create or replace function work.purge_deliveries(
  delivered_kept interval, others_kept interval, at_once integer
) returns integer language sql
set enable_seqscan = off set enable_bitmapscan = off as $$
  with recursive webhook as (
    (select webhook_id from work.pending_deliveries order by webhook_id limit 1)
    union all
    select next.webhook_id from webhook w cross join lateral (
      select webhook_id from work.pending_deliveries p
       where p.webhook_id > w.webhook_id order by p.webhook_id limit 1) next
  ),
  unsent as materialized (
    select delivery_id from work.pending_deliveries
     where due_at < now() - others_kept limit at_once for update skip locked
  ),
  expired as (
    select delivery_id as id, 'pending' as status from unsent
    union all
    (select id, status from work.deliveries
      where failed_at is null and created_at < now() - delivered_kept
        and status = 'delivered' and ended_at < now() - delivered_kept limit at_once)
    union all
    (select id, status from work.deliveries
      where failed_at < now() - others_kept limit at_once)
    limit at_once
  ),
  locked as materialized (
    -- one that has become pending meanwhile stays
    select d.id from work.deliveries d join expired on d.id = expired.id
     where d.status = expired.status for update of d skip locked
  ),
  purged as (
    delete from work.deliveries d using locked where d.id = locked.id returning d.id
  ),
  attempts as (
    delete from work.delivery_attempts a using purged where a.delivery_id = purged.id
  ),
  no_longer_pending as (
    delete from work.pending_deliveries p using unsent
     where p.delivery_id = unsent.delivery_id
       and unsent.delivery_id in (select id from purged)
  ),
  without_delivery as (
    delete from work.pending_deliveries p
     where p.lease_until < now() and p.delivery_id = any(array(
       select oldest.delivery_id from webhook cross join lateral (
         select delivery_id, lease_until from work.pending_deliveries o
          where o.webhook_id = webhook.webhook_id
          order by o.due_at, o.event_id limit 100) oldest
        where oldest.lease_until < now()
          and not exists (select from work.deliveries d where d.id = oldest.delivery_id)))
  )
  select count(*)::integer from purged
$$;
