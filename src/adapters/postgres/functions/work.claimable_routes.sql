-- version: 1
-- Returns the routes on which transfers wait, as an array of `[account, source, destination]`. The
-- source is empty if it is no endpoint. The cost grows with the routes, not with the transfers that
-- wait: each step reads the first transfer of the next route.
create or replace function work.claimable_routes() returns jsonb
language sql stable
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off as $$
  with recursive routes as (
    (select account_id, coalesce(source_endpoint_id, '') as source,
            destination_endpoint_id as destination
       from work.transfer_jobs
      where status <> 'in_progress' and claim_id is null
      order by account_id, coalesce(source_endpoint_id, ''), destination_endpoint_id limit 1)
    union all
    select n.* from routes r cross join lateral (
      select account_id, coalesce(source_endpoint_id, ''), destination_endpoint_id
        from work.transfer_jobs
       where status <> 'in_progress' and claim_id is null
         and (account_id, coalesce(source_endpoint_id, ''), destination_endpoint_id)
             > (r.account_id, r.source, r.destination)
       order by account_id, coalesce(source_endpoint_id, ''), destination_endpoint_id limit 1) n
  )
  select coalesce(jsonb_agg(jsonb_build_array(account_id, source, destination)), '[]') from routes
$$;
