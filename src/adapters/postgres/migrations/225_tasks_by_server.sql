-- The servers take turns, so the index begins with them. `takes` counts tries, and never goes back.
alter table work.cleanups
  add column server text collate "C" not null generated always as (
    split_part(destination, '/', 1) || '//' || split_part(destination, '/', 3)) stored,
  add column takes integer not null default 0;
drop index work.cleanups_due;
create index cleanups_of_server on work.cleanups (server, due_at);
alter table work.late_looks
  add column server text collate "C" not null generated always as (
    split_part(uri, '/', 1) || '//' || split_part(uri, '/', 3)) stored,
  add column takes integer not null default 0;
drop index work.late_looks_due;
create index late_looks_of_server on work.late_looks (server, due_at);
