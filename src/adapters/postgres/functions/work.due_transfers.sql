-- version: 2
-- Returns transfers that a mover may claim now: of each route that uses no endpoint in `closed`,
-- the first `at_most` by rank, without those in `passed_over`. A route is an account with the two
-- endpoints of a transfer; `routes` is what `work.claimable_routes` returned, if it was asked
-- already. The settings keep Postgres from sorting a whole queue where it can read the first of
-- each route.
create or replace function work.due_transfers(
  closed text[], at_most integer, passed_over text[], routes jsonb default null
) returns table (
  transfer_id text, account_id text, source_endpoint_id text, destination_endpoint_id text,
  rank timestamptz, due_at timestamptz
)
language sql stable
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off as $$
  select j.*
    from (select route ->> 0 as account_id, route ->> 1 as source, route ->> 2 as destination
            from jsonb_array_elements(coalesce(routes, work.claimable_routes())) r(route)) r
   cross join lateral (
      select transfer_id, account_id, source_endpoint_id, destination_endpoint_id, rank, due_at
        from work.transfer_jobs
       where account_id = r.account_id and coalesce(source_endpoint_id, '') = r.source
         and destination_endpoint_id = r.destination
         and status <> 'in_progress' and claim_id is null
         and due_at <= now() and transfer_id <> all(passed_over)
       order by rank limit at_most) j
   where r.source <> all(closed) and r.destination <> all(closed)
$$;
