-- The events of the Postgres engine. Never changed, never removed.
create table log.head (
  "only" boolean primary key default true check ("only"),
  position bigint not null
);
insert into log.head (position) values (0);

create table log.events (
  position bigint primary key,
  stream text collate "C" not null,
  revision integer not null,
  id text collate "C" not null,
  type text not null,
  schema_version integer not null,
  -- text, not jsonb: the very bytes that were hashed
  data text not null,
  metadata text not null,
  unique (stream, revision)
);
