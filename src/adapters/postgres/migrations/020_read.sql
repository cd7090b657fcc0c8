-- How far each projection has come. The projections' own tables are made by their code, which can make
-- them anew beside the old ones; a rebuild's checkpoint is named `NAME:rebuild` until it takes over.
create table read.checkpoints (
  name text primary key,
  -- the version of the projection's tables
  version integer not null,
  log_id text not null,
  position bigint not null,
  -- the last event given: tells a restored older log from this one; null before the first
  event_id text,
  event_stream text,
  event_revision integer,
  updated_at timestamptz not null default now()
);
