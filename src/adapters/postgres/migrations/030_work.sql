-- How far each process manager has come.
create table work.checkpoints (
  name text primary key,
  version integer not null,
  log_id text not null,
  position bigint not null,
  event_id text,
  event_stream text,
  event_revision integer,
  updated_at timestamptz not null default now()
);

-- One row for each transfer that has not ended: what is to be done, who does it, how far it is.
-- Status and revision come from the log alone; claims and figures from the movers.
create table work.transfer_jobs (
  transfer_id text primary key,
  account_id text not null,
  status text not null check (status in ('pending', 'queued', 'in_progress')),
  revision integer not null,
  priority text not null,
  -- claims are taken in this order: the time it became due, moved by its priority
  rank timestamptz not null,
  due_at timestamptz not null,
  source text not null,
  destination text not null,
  source_endpoint_id text,
  destination_endpoint_id text not null,
  -- attempts begun: what an ended one may have left behind is removed
  attempts integer not null default 0,
  -- the fence: whoever writes names the claim he holds
  claim_id text,
  claimed_by text,
  lease_until timestamptz,
  size_bytes bigint,
  transferred_bytes bigint not null default 0,
  speed_bps bigint,
  resume_record jsonb
);
create index transfer_jobs_pending on work.transfer_jobs (rank) where status = 'pending';
create index transfer_jobs_claimable on work.transfer_jobs (account_id, rank) where status <> 'in_progress' and claim_id is null;
create index transfer_jobs_leases on work.transfer_jobs (lease_until) where claim_id is not null;
create index transfer_jobs_source on work.transfer_jobs (source_endpoint_id);
create index transfer_jobs_destination on work.transfer_jobs (destination_endpoint_id);

-- Transfers that have ended and may have left parts, uploads or blocks at their destination.
create table work.cleanups (
  transfer_id text primary key,
  account_id text not null,
  destination text not null,
  resume_record jsonb,
  -- when it is tried next; moved on by whoever tries
  due_at timestamptz not null default now(),
  tries integer not null default 0
);
create index cleanups_due on work.cleanups (due_at);

-- Endpoints that refused a sign-in: not tried again for a while, so that a queue locks no account.
create table work.sign_in_holds (
  endpoint_id text primary key,
  -- other credentials are tried at once
  credentials_record text not null,
  until timestamptz not null
);

-- Mover processes that live, for estimates and for people.
create table work.movers (
  process_id text primary key,
  slots integer not null,
  active integer not null,
  -- what a transfer took lately, in milliseconds
  mean_duration_ms double precision,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);

-- Requests of a key or an address in the current minute. Lost in a crash, at no harm.
create unlogged table work.rate_windows (
  subject text primary key,
  -- epoch seconds at which the window began
  started bigint not null,
  requests integer not null
);

create table work.idempotency_keys (
  account_id text not null,
  route text not null,
  key text not null,
  -- SHA-256 of the parsed body
  fingerprint text not null,
  -- ids and times settled on before the append, so that it can be repeated
  reserved jsonb not null,
  -- null until the request has been answered
  status integer,
  answer jsonb,
  created_at timestamptz not null default now(),
  primary key (account_id, route, key)
);
create index idempotency_keys_age on work.idempotency_keys (created_at);
