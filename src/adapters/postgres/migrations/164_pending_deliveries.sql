-- What is left to send: one row for each pending delivery. Claims and retries write these small
-- rows and leave the deliveries with their payloads alone.
create table work.pending_deliveries (
  delivery_id text collate "C" primary key,
  webhook_id text collate "C" not null,
  event_id text collate "C" not null,
  transfer_id text,
  due_at timestamptz not null default now(),
  -- attempts since the delivery last became pending: how much of the retry schedule is used up
  tries integer not null default 0,
  -- the fence: a record of an attempt names the claim that made it
  claim_id text,
  lease_until timestamptz
-- a page has room for the claims of its rows, so a claim writes no index
) with (fillfactor = 50);

insert into work.pending_deliveries
  (delivery_id, webhook_id, event_id, transfer_id, due_at, tries, claim_id, lease_until)
select id, webhook_id, event_id, transfer_id, due_at, tries, claim_id, lease_until
  from work.deliveries where status = 'pending';

-- in exactly the order of claims
create index pending_deliveries_due on work.pending_deliveries (webhook_id, due_at, event_id);
-- what holds back the younger events of its transfer
create index pending_deliveries_untried
  on work.pending_deliveries (transfer_id, webhook_id, event_id)
  where tries = 0 and transfer_id is not null;

-- The end of a delivery changes no indexed column, unless it fails. So it writes no index.
drop index work.deliveries_pending;
drop index work.deliveries_untried;
drop index work.deliveries_ended;
drop index work.deliveries_failed;
drop index work.deliveries_failed_listed;
alter table work.deliveries
  drop column due_at,
  drop column tries,
  drop column claim_id,
  drop column lease_until,
  add column failed_at timestamptz
    generated always as (case when status = 'failed' then ended_at end) stored;
alter table work.deliveries set (fillfactor = 50);
create index deliveries_failed on work.deliveries (id) where failed_at is not null;
create index deliveries_failed_listed on work.deliveries (webhook_id, id)
  where failed_at is not null;
-- In the order of their purge. Failed ones are kept for longer, and are not looked at every minute
-- meanwhile.
create index deliveries_failed_at on work.deliveries (failed_at) where failed_at is not null;
create index deliveries_created on work.deliveries (created_at) where failed_at is null;
