-- version: 1
-- Deletes up to `at_once` expired deliveries with their attempts, and returns how many it deleted.
-- Delivered ones expire after `delivered_kept`. Failed ones, which can be sent again, and pending
-- ones, counted from `due_at`, expire after `others_kept`.
create or replace function work.purge_deliveries(
  delivered_kept interval, others_kept interval, at_once integer
) returns integer language sql as $$
  with expired as (
    (select id from work.deliveries
      where status = 'delivered' and ended_at < now() - delivered_kept limit at_once)
    union all
    (select id from work.deliveries
      where status = 'failed' and ended_at < now() - others_kept limit at_once)
    union all
    (select id from work.deliveries
      where status = 'pending' and due_at < now() - others_kept limit at_once)
    limit at_once
  ),
  purged as (
    delete from work.deliveries d using expired where d.id = expired.id returning d.id
  ),
  attempts as (
    delete from work.delivery_attempts a using purged where a.delivery_id = purged.id
  )
  select count(*)::integer from purged
$$;
