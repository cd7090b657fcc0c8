-- version: 2
-- Returns the due transfers for which a claim of `asked` transfers keeps places, with the endpoints
-- at which it does. Each needs a place at two endpoints at once, or has its turn after an account
-- that takes each place of one. Without a kept place, others would pass it for ever.
--
-- A place is kept only at `scarce` endpoints: this claim could take their last one. The rules:
-- - The transfer is the first of its route and has waited for 10 minutes.
-- - It waits for places only: it uses no endpoint in `unusable`, or that `room` lacks.
-- - An endpoint that has no place will soon have one, by the speed of what moves there: within a
--   quarter of the time that the transfer has waited. So a place is not idle for hours.
-- - Less than half of the places of the endpoint have older transfers of its account. So an account
--   with a long queue on many routes cannot take them all by age.
-- - It is the first by rank at all its scarce endpoints. So no two transfers keep places that the
--   other needs, and an endpoint keeps one place at most.
-- `fits` is true if all its endpoints have a place now.
create or replace function work.starved_transfers(
  routes jsonb, room jsonb, unusable text[], asked integer
) returns table (transfer_id text, fits boolean, scarce text[])
language sql stable as $$
  -- Others keep no place, and each route costs a look-up of its first transfer.
  with of_scarce as materialized (
    select coalesce(jsonb_agg(route), '[]') as list
      from jsonb_array_elements(routes) r(route)
     where (room ->> (route ->> 1))::integer <= asked or (room ->> (route ->> 2))::integer <= asked
  ),
  claimed as materialized (
    select distinct j.transfer_id, j.account_id, j.rank, u.endpoint_id,
           case when j.speed_bps = 0 then 'infinity'::double precision
                else coalesce((j.size_bytes - j.transferred_bytes) * 8.0 / j.speed_bps, 0)
           end as seconds_left
      from work.transfer_jobs j,
           unnest(array[j.source_endpoint_id, j.destination_endpoint_id]) u(endpoint_id)
     where j.claim_id is not null
  ),
  moving as (
    select endpoint_id, count(*) as claims, min(seconds_left) as seconds_left
      from claimed group by endpoint_id
  ),
  waiting as materialized (
    select distinct d.transfer_id, d.account_id, d.rank, u.endpoint_id,
           extract(epoch from now() - d.due_at) as waited,
           room ? u.endpoint_id as known, (room ->> u.endpoint_id)::integer as free,
           coalesce((room ->> u.endpoint_id)::integer <= asked, false) as scarce
      from work.due_transfers(unusable, 1, '{}', (select list from of_scarce)) d,
           unnest(array[d.source_endpoint_id, d.destination_endpoint_id]) u(endpoint_id)
     where d.due_at < now() - interval '10 minutes' and u.endpoint_id is not null
  ),
  older as (
    select w.transfer_id, w.endpoint_id, count(*) as claims
      from waiting w join claimed c using (account_id, endpoint_id)
     where c.rank < w.rank group by w.transfer_id, w.endpoint_id
  ),
  able as (
    select transfer_id
      from waiting w left join moving m using (endpoint_id)
           left join older o using (transfer_id, endpoint_id)
     group by transfer_id
    having bool_or(w.scarce) and bool_and(w.known
             and (coalesce(w.free > 0, true) or m.seconds_left <= w.waited / 4)
             and (not w.scarce or coalesce(o.claims, 0) * 2 < w.free + coalesce(m.claims, 0)))
  ),
  numbered as (
    select w.*, row_number() over (partition by endpoint_id order by rank, transfer_id) as place
      from waiting w join able using (transfer_id)
  )
  select transfer_id, bool_and(coalesce(free > 0, true)),
         array_agg(endpoint_id) filter (where scarce)
    from numbered group by transfer_id having bool_and(place = 1 or not scarce)
$$;
