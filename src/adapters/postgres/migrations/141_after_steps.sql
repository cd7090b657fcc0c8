-- Completed transfers with steps that are left: a marker, or what becomes of the source.
create table work.after_steps (
  transfer_id text collate "C" primary key,
  due_at timestamptz not null default now(),
  -- Failed tries in a row.
  tries integer not null default 0,
  -- True once a try may have changed the source.
  begun boolean not null default false,
  claim_id text,
  lease_until timestamptz
);
create index on work.after_steps (due_at);
