-- Which engine the tables of this database follow. Both have the same events after a copy, but other
-- positions.
create table work.log_engines (
  log_id text primary key,
  engine text not null check (engine in ('postgres', 'eventstoredb'))
);
