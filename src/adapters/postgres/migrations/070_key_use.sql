-- When each key was last used, to the minute.
create table work.key_use (
  key_id text primary key,
  used_at timestamptz not null
);
