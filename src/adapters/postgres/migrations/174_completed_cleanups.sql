-- True if the transfer has completed: the older file that it replaced must not get its name back.
alter table work.cleanups add column completed boolean not null default false;
