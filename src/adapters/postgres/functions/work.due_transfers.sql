-- version: 1
-- Returns transfers that a mover may claim now: of each route that uses no endpoint in `closed`, the
-- first `at_most` by rank, without those in `passed_over`. A route is an account with the two
-- endpoints of a transfer. The cost grows with the routes, not with the transfers that wait: the
-- settings keep Postgres from sorting a whole queue where it can read the first of each route.
create or replace function work.due_transfers(
  closed text[], at_most integer, passed_over text[]
) returns table (
  transfer_id text, account_id text, source_endpoint_id text, destination_endpoint_id text,
  rank timestamptz
)
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
  select j.*
    from routes r cross join lateral (
      select transfer_id, account_id, source_endpoint_id, destination_endpoint_id, rank
        from work.transfer_jobs
       where account_id = r.account_id and coalesce(source_endpoint_id, '') = r.source
         and destination_endpoint_id = r.destination
         and status <> 'in_progress' and claim_id is null
         and due_at <= now() and transfer_id <> all(passed_over)
       order by rank limit at_most) j
   where r.source <> all(closed) and r.destination <> all(closed)
$$;
