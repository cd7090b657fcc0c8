-- version: 1
-- Records attempts that have ended. Skips one whose claim no longer holds: the new holder records
-- its own. `due` has the time of the next attempt, or null if the delivery has ended.
create or replace function work.record_attempts(
  ids text[], claims text[], began timestamptz[], durations integer[], status_codes integer[],
  errors text[], responses text[], statuses text[], due timestamptz[]
) returns void
language plpgsql
-- as in work.claim_deliveries
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with attempt as (
    select * from unnest(
      ids, claims, began, durations, status_codes, errors, responses, statuses, due
    ) as a(id, claim_id, at, duration_ms, status_code, error, response_body, status, due_at)
  ),
  ended as (
    delete from work.pending_deliveries p using attempt a
     where p.delivery_id = a.id and p.claim_id = a.claim_id and a.due_at is null
    returning a.*
  ),
  retried as (
    update work.pending_deliveries p
       set due_at = a.due_at, tries = p.tries + 1, claim_id = null, lease_until = null
      from attempt a
     where p.delivery_id = a.id and p.claim_id = a.claim_id and a.due_at is not null
    returning a.*
  ),
  recorded as (
    update work.deliveries d set
      status = a.status,
      attempts = d.attempts + 1,
      ended_at = case
        when a.due_at is null then a.at + a.duration_ms * interval '1 millisecond' end,
      last_status_code = a.status_code,
      last_error = a.error
    from (select * from ended union all select * from retried) a where d.id = a.id
    returning d.id, d.attempts, a.at, a.duration_ms, a.status_code, a.error, a.response_body
  )
  insert into work.delivery_attempts
    (delivery_id, number, at, duration_ms, status_code, error, response_body)
  select * from recorded;
end $$;
