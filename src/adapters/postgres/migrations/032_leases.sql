-- Rows of claimed transfers change every second: the page has room for it, and no index is written to, since none is by lease_until.
alter table work.transfer_jobs set (fillfactor = 50);
drop index work.transfer_jobs_leases;
create index transfer_jobs_claimed on work.transfer_jobs (account_id) where claim_id is not null;

-- What an ended transfer may have left behind follows from its revision.
alter table work.transfer_jobs drop column attempts;
