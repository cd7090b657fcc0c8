-- How the last listing of each flow ended. The trigger counts from its start.
create table work.flow_looks (
  flow_id text collate "C" primary key,
  began_at timestamptz not null,
  succeeded_at timestamptz,
  waiting integer not null,
  -- when files that wait should be ready; null if the trigger says when to look
  look_again_at timestamptz
);

-- Versions of files that wait until they are unchanged for long enough.
create table work.flow_sightings (
  flow_id text collate "C" not null,
  file_key text collate "C" not null,
  first_seen_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  primary key (flow_id, file_key)
);
