-- Endpoints whose server accepts fewer connections than `max_connections` allows: for a while, so
-- many transfers move there and no more.
create table work.fewer_places (
  endpoint_id text primary key,
  places integer not null,
  until timestamptz not null
);
