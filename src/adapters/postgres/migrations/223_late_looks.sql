-- Ends of transfers at which a server may carry out a request late.
create table work.late_looks (
  transfer_id text not null,
  side text not null check (side in ('source', 'destination')),
  account_id text not null,
  uri text not null,
  -- the resume record of a destination; how often a source was tried
  state jsonb,
  -- looks that have taken place, and tries of the next one
  looks integer not null default 0,
  tries integer not null default 0,
  due_at timestamptz not null default now() + interval '1 minute',
  primary key (transfer_id, side)
);
create index late_looks_due on work.late_looks (due_at);

-- How often the source was tried: each try sets it aside under a name of its own.
alter table work.after_steps add column source_tries integer not null default 0;
update work.after_steps set source_tries = 1 where begun;
