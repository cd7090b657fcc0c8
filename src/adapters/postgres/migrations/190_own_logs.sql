-- The logs that this database began or took over. A log in an EventStoreDB serves one database: two
-- of them would move each transfer twice.
create table work.own_logs (log_id text primary key);
insert into work.own_logs (log_id)
select log_id from work.log_engines
union
select log_id from work.checkpoints;
