-- The webhooks as the outbox knows them, folded from their streams up to its own place in the log.
create table work.outbox_webhooks (
  webhook_id text collate "C" primary key,
  account_id text not null,
  -- active and enabled
  live boolean not null,
  revision integer not null,
  position bigint not null,
  state jsonb not null
);
create index outbox_webhooks_live on work.outbox_webhooks (account_id) where live;

-- What a webhook is or was told: one row for each event, however often it is sent.
create table work.deliveries (
  id text collate "C" primary key,
  webhook_id text collate "C" not null,
  account_id text not null,
  event_id text collate "C" not null,
  event_type text not null,
  transfer_id text,
  -- the very bytes that are sent and signed
  body text not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  -- since it was last made pending: how much of the retry schedule is used up
  tries integer not null default 0,
  -- ever
  attempts integer not null default 0,
  ended_at timestamptz,
  last_status_code integer,
  last_error text,
  -- the fence: whoever records an attempt names the claim he holds
  claim_id text,
  lease_until timestamptz,
  unique (webhook_id, event_id)
) with (fillfactor = 70);
-- in exactly the order of claims
create index deliveries_pending on work.deliveries (webhook_id, due_at, event_id) where status = 'pending';
-- what holds back the younger events of its transfer
create index deliveries_untried on work.deliveries (transfer_id, webhook_id, event_id)
  where status = 'pending' and tries = 0 and transfer_id is not null;
create index deliveries_listed on work.deliveries (webhook_id, id);
create index deliveries_failed on work.deliveries (id) where status = 'failed';
create index deliveries_ended on work.deliveries (ended_at) where status <> 'pending';

create table work.delivery_attempts (
  delivery_id text collate "C" not null,
  number integer not null,
  at timestamptz not null,
  duration_ms integer not null,
  status_code integer,
  error text,
  -- at most 4 KiB
  response_body text,
  primary key (delivery_id, number)
);

-- Where in the log each hour's first event lies, so that a replay need not begin at the start.
create table work.event_times (
  hour timestamptz primary key,
  position bigint not null
);

-- Replays under way.
create table work.webhook_replays (
  id bigint generated always as identity primary key,
  webhook_id text collate "C" not null,
  -- how far it has come, inclusive, and where it ends
  position bigint not null,
  until_position bigint not null,
  -- events that occurred before it are passed over
  since timestamptz,
  created_at timestamptz not null default now()
);
