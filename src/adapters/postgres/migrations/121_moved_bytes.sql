-- Bytes that all movers have moved since the installation began: one row.
create table work.moved_bytes (
  only_row boolean primary key default true check (only_row),
  bytes bigint not null
);
insert into work.moved_bytes (bytes) values (0);

-- A total, like the counts of transfers. Null in older samples, which had the speed of one moment.
alter table work.samples add column moved_bytes bigint;
alter table work.samples drop column speed_bps;
