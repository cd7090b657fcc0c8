-- In the order of their purge: failed ones are kept for longer, and must not be looked at every minute meanwhile.
drop index work.deliveries_ended;
create index deliveries_ended on work.deliveries (status, ended_at) where status <> 'pending';
-- The failed ones of a webhook are few among those that were delivered.
create index deliveries_failed_listed on work.deliveries (webhook_id, id) where status = 'failed';
