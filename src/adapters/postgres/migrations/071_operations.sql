-- Rebuilds and verifications that administrators have asked for: the last of each kind.
create table work.projection_tasks (
  projection text not null,
  kind text not null check (kind in ('rebuild', 'verify')),
  requested_by text not null,
  requested_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  events bigint not null default 0,
  -- of the log that has been read, 0 to 1
  share double precision not null default 0,
  events_per_second integer,
  seconds_left double precision,
  -- keys of rows that were not as the log has them; null until they were compared
  differences jsonb,
  error text,
  primary key (projection, kind)
);

-- How the installation stood in each minute, for graphs: totals since ever, and figures of that moment.
create table work.samples (
  at timestamptz primary key,
  created bigint not null,
  completed bigint not null,
  failed bigint not null,
  cancelled bigint not null,
  waiting integer not null,
  moving integer not null,
  speed_bps bigint not null
);
