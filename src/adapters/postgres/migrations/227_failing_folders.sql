-- The folders that the last whole listing of a flow could not list: another one is news.
alter table work.flow_looks add column failing text[];
