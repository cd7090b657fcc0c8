-- True while the tables of this database follow a copy of the log in another engine. `log.append`
-- then takes events only from a copy into this log.
alter table log.head add column closed boolean not null default false;
