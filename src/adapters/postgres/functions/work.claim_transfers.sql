-- version: 2
-- Claims due transfers, one for each claim id at most. A transfer is claimed only while its
-- endpoints are not paused and have free connections. An endpoint that the catalog lacks has none:
-- the catalog may not be filled yet, and the endpoint may be paused. The account with the fewest moving transfers
-- goes first; within an account the rank decides. The rows come in that order. Claims of several
-- processes run one after the other, so two of them cannot both take the last connection of an
-- endpoint.
create or replace function work.claim_transfers(process text, claim_ids text[], lease interval)
returns table (
  transfer_id text, claim_id text, account_id text, source text, destination text,
  waited_seconds double precision, resume_record jsonb
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  -- transfers that each endpoint can still take; without an entry there is no known limit
  room jsonb;
  saturated text[];
  saturated_before text[];
  chosen text[] := '{}';
  candidate record;
  used text[];
  endpoint text;
begin
  perform pg_advisory_xact_lock(hashtextextended('waybill claims', 0));
  select coalesce(jsonb_object_agg(places.endpoint_id, places.free), '{}') into room
    from (select e.endpoint_id,
                 case when e.paused then 0 else e.max_connections - count(j.transfer_id) end as free
            from read.endpoints e
            left join work.transfer_jobs j
              on j.claim_id is not null
             and e.endpoint_id in (j.source_endpoint_id, j.destination_endpoint_id)
           where not e.removed group by e.endpoint_id, e.paused, e.max_connections) places;

  loop
    select coalesce(array_agg(r.key order by r.key), '{}') into saturated
      from jsonb_each_text(room) r where r.value::integer <= 0;
    exit when cardinality(chosen) = cardinality(claim_ids) or saturated = saturated_before;
    saturated_before := saturated;
    for candidate in
      with recursive accounts as (
        (select account_id from work.transfer_jobs
          where status <> 'in_progress' and claim_id is null order by account_id limit 1)
        union all
        select (select j.account_id from work.transfer_jobs j
                 where j.status <> 'in_progress' and j.claim_id is null
                   and j.account_id > a.account_id order by j.account_id limit 1)
          from accounts a where a.account_id is not null
      ),
      due as (
        select j.*, row_number() over (partition by j.account_id order by j.rank)
                    + (select count(*) from work.transfer_jobs m
                        where m.claim_id is not null and m.account_id = j.account_id) as turn
          from accounts a cross join lateral (
            select transfer_id, account_id, source_endpoint_id, destination_endpoint_id, rank
              from work.transfer_jobs
             where account_id = a.account_id and status <> 'in_progress' and claim_id is null
               and due_at <= now()
               and destination_endpoint_id <> all(saturated)
               and coalesce(source_endpoint_id, '') <> all(saturated)
               and transfer_id <> all(chosen)
             order by rank limit cardinality(claim_ids) - cardinality(chosen)) j
      )
      select transfer_id, source_endpoint_id, destination_endpoint_id from due
       order by turn, rank limit cardinality(claim_ids) - cardinality(chosen)
    loop
      room := room || (
        select coalesce(jsonb_object_agg(u, 0), '{}')
          from unnest(
            array[candidate.source_endpoint_id, candidate.destination_endpoint_id]) u
         where not room ? u
           and not exists (select from read.endpoints e where e.endpoint_id = u));
      used := array(
        select distinct u
          from unnest(
            array[candidate.source_endpoint_id, candidate.destination_endpoint_id]) u
         where room ? u);
      continue when exists (select from unnest(used) u where (room ->> u)::integer <= 0);
      foreach endpoint in array used loop
        room := jsonb_set(room, array[endpoint], to_jsonb((room ->> endpoint)::integer - 1));
      end loop;
      chosen := chosen || candidate.transfer_id;
    end loop;
  end loop;

  return query
    -- A transfer may have been cancelled since it was chosen.
    with found as (
      select transfer_id from work.transfer_jobs
       where transfer_id = any(chosen) and status <> 'in_progress' and claim_id is null
       order by transfer_id for update
    ),
    claimed as (
      update work.transfer_jobs j
         set claim_id = n.claim_id, claimed_by = process, lease_until = now() + lease,
             speed_bps = null
        from unnest(chosen, claim_ids) with ordinality as n(transfer_id, claim_id, place)
        join found using (transfer_id)
       where j.transfer_id = n.transfer_id
      returning n.place, j.transfer_id, j.claim_id, j.account_id, j.source, j.destination,
                extract(epoch from now() - j.due_at)::double precision as waited_seconds,
                j.resume_record
    )
    select transfer_id, claim_id, account_id, source, destination, waited_seconds, resume_record
      from claimed order by place;
end $$;
