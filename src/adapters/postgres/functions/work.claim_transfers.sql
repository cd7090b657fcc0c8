-- version: 7
-- Claims due transfers, one for each claim id at most. A transfer is claimed only while its
-- endpoints are not paused and have places. An endpoint has a place for each of its connections, and
-- `sharing` places for each while all that moves there is small; `sharing` is by protocol, and 1
-- where it names none. It has none for a process that leaves it to others, and no more than
-- `work.accepted_places` says. An endpoint that the catalog lacks has none: the catalog may not be
-- filled yet, and the endpoint may be paused. The account with the fewest moving transfers goes
-- first; within an account the rank decides. The rows come in that order. The places that
-- `work.starved_transfers` needs are kept for its transfers, which keep their turn. Claims of
-- several processes run one after the other, so two of them cannot both take the last place of an
-- endpoint.
create or replace function work.claim_transfers(
  process text, claim_ids text[], lease interval, sharing jsonb, small_bytes bigint,
  left_to_others text[] default '{}'
) returns table (
  transfer_id text, claim_id text, account_id text, source text, destination text,
  waited_seconds double precision, resume_record jsonb
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  -- places that each endpoint has left; null for no limit
  room jsonb;
  -- endpoints that have no place for this process, whatever moves there
  unusable text[];
  -- read once: that costs more than the first transfers of each
  routes jsonb;
  -- starved transfers that have all their places: `room` is without these
  kept text[] := '{}';
  saturated text[];
  saturated_before text[];
  chosen text[] := '{}';
  found jsonb := '{"transfers": [], "rejected": 1}';
begin
  perform pg_advisory_xact_lock(hashtextextended('waybill claims', 0));
  with used as (
    select endpoint_id, count(*) as claims,
           coalesce(bool_and(coalesce(size_bytes, 0) <= small_bytes), true) as small
      from (select distinct j.transfer_id, j.size_bytes, u.endpoint_id
              from work.transfer_jobs j,
                   unnest(array[j.source_endpoint_id, j.destination_endpoint_id]) u(endpoint_id)
             where j.claim_id is not null) claimed
     group by endpoint_id
  )
  select coalesce(jsonb_object_agg(e.endpoint_id,
           case when e.removed then null
                when e.paused or e.endpoint_id = any(left_to_others) then 0
                else least(work.accepted_places(f.places, f.until),
                     e.max_connections * case when coalesce(used.small, true)
                       then coalesce((sharing ->> (e.state #>> '{settings,protocol}'))::integer, 1)
                       else 1 end) - coalesce(used.claims, 0) end), '{}'),
         coalesce(array_agg(e.endpoint_id)
                    filter (where e.paused or e.endpoint_id = any(left_to_others)), '{}')
    into room, unusable from read.endpoints e left join used using (endpoint_id)
         left join work.fewer_places f on f.endpoint_id = e.endpoint_id;

  routes := work.claimable_routes();
  -- Only the last free places of an endpoint need to be kept.
  if exists (select from jsonb_each_text(room)
              where value::integer between 1 and cardinality(claim_ids)) then
    with starved as materialized (
      select * from work.starved_transfers(
        routes, room, unusable, cardinality(claim_ids))
    )
    select coalesce((select array_agg(transfer_id) from starved where fits), '{}'),
           room || coalesce((
             select jsonb_object_agg(endpoint_id, (room ->> endpoint_id)::integer - 1)
               from (select distinct unnest(scarce) as endpoint_id from starved) s
              where (room ->> endpoint_id)::integer > 0), '{}')
      into kept, room;
  end if;

  loop
    saturated := array(
      select key from jsonb_each_text(room) where value::integer <= 0 order by key);
    exit when cardinality(chosen) = cardinality(claim_ids) or found -> 'rejected' = '0'
           or (saturated = saturated_before and found -> 'transfers' = '[]');
    saturated_before := saturated;
    with moving as materialized (
      select account_id, count(*) as transfers from work.transfer_jobs
       where claim_id is not null group by account_id
    ),
    due as (
      select d.*, row_number() over (partition by d.account_id order by d.rank)
                  + coalesce(m.transfers, 0) as turn
        from (select * from work.due_transfers(
                saturated, cardinality(claim_ids) - cardinality(chosen), chosen || kept, routes)
              union all
              select transfer_id, account_id, source_endpoint_id, destination_endpoint_id, rank,
                     due_at
                from work.transfer_jobs
               where transfer_id = any(kept) and transfer_id <> all(chosen)) d
        left join moving m using (account_id)
    ),
    candidates as (
      select transfer_id, source_endpoint_id, destination_endpoint_id,
             row_number() over (order by turn, rank) as place
        from due order by turn, rank limit cardinality(claim_ids) - cardinality(chosen)
    ),
    uses as (
      select distinct transfer_id, place, endpoint_id
        from candidates,
             unnest(array[source_endpoint_id, destination_endpoint_id]) u(endpoint_id)
       where endpoint_id is not null and transfer_id <> all(kept)
    ),
    -- A transfer counts at its endpoints even if another endpoint has no place for it. So this may
    -- leave places, for the next round, but never takes too many. The first one always fits.
    fitting as (
      select transfer_id, place
        from (select transfer_id, place,
                     case when not room ? endpoint_id then false
                          else coalesce(row_number() over (partition by endpoint_id order by place)
                                        <= (room ->> endpoint_id)::integer, true) end as fits
                from uses) counted
       group by transfer_id, place having bool_and(fits)
      union all
      select transfer_id, place from candidates where transfer_id = any(kept)
    ),
    left_over as (
      select endpoint_id,
             coalesce((room ->> endpoint_id)::integer, case when not room ? endpoint_id then 0 end)
               - count(*) filter (where transfer_id in (select transfer_id from fitting)) as free
        from uses group by endpoint_id
    )
    select jsonb_build_object(
             'transfers', (select coalesce(jsonb_agg(transfer_id order by place), '[]')
                             from fitting),
             'rejected', (select count(*) from candidates) - (select count(*) from fitting),
             'room', (select coalesce(jsonb_object_agg(endpoint_id, free), '{}') from left_over))
      into found;
    chosen := chosen || array(select jsonb_array_elements_text(found -> 'transfers'));
    room := room || (found -> 'room');
  end loop;

  return query
    -- A transfer may have been cancelled since it was chosen. The rows come by their key: `coalesce`
    -- keeps Postgres from reading the whole index of waiting transfers for them.
    with found as (
      select transfer_id from work.transfer_jobs
       where transfer_id = any(chosen) and status <> 'in_progress' and coalesce(claim_id, '') = ''
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
