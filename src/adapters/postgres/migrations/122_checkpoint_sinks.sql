-- What each place outside keeps of the checkpoints, as the process that feeds them saw it last.
create table work.checkpoint_sinks (
  url text primary key,
  -- events that the last checkpoint covers which it has taken; null before the first
  size bigint,
  taken_at timestamptz,
  -- why it did not take the last one, and when it is asked again; null if it has it
  error text,
  refuses boolean not null default false,
  next_try_at timestamptz
);
