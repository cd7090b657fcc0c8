-- Claims walk over routes: the pairs of endpoints between which an account's transfers wait. An
-- endpoint without a free place is passed over as a whole, however many transfers wait for it.
drop index work.transfer_jobs_claimable;
create index transfer_jobs_routes
  on work.transfer_jobs (account_id, coalesce(source_endpoint_id, ''), destination_endpoint_id, rank)
  where status <> 'in_progress' and claim_id is null;

-- Every event of a transfer wrote to these two. Only the removal of an endpoint read them.
drop index work.transfer_jobs_source, work.transfer_jobs_destination;
