-- version: 2
-- Deletes up to `at_once` expired deliveries with their attempts, and returns how many it deleted.
-- Delivered ones expire after `delivered_kept`. Failed ones, which can be sent again, and pending
-- ones, counted from `due_at`, expire after `others_kept`.
create or replace function work.purge_deliveries(
  delivered_kept interval, others_kept interval, at_once integer
) returns integer language sql as $$
  with unsent as (
    delete from work.pending_deliveries
     where delivery_id = any(array(
       select delivery_id from work.pending_deliveries
        where due_at < now() - others_kept limit at_once))
    returning delivery_id
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
  purged as (
    delete from work.deliveries d using expired
     -- one that has become pending meanwhile stays
     where d.id = expired.id and d.status = expired.status
    returning d.id
  ),
  attempts as (
    delete from work.delivery_attempts a using purged where a.delivery_id = purged.id
  )
  select count(*)::integer from purged
$$;
