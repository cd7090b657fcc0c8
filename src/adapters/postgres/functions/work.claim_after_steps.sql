-- version: 2
-- Claims steps after transfers that are due, for a lease. Of the endpoints that answer it claims
-- `answering` at most, of all others `unproven`, and `unread` steps whose endpoint is not known yet.
-- `known` has the endpoints that the caller has tried, as `{"free": 4, "answers": true, "turn": 1}`:
-- the one that was tried longest ago has turn 1. Any other endpoint is unproven, has one free place
-- and turn 0. The first step of each endpoint goes before the second of any.
--
-- An endpoint costs a few look-ups, however many steps wait for it. One that is paused, or whose
-- sign-ins are on hold, is passed over. Claims run one after the other, so two processes never
-- choose the same steps. Older versions claim without this function: locked rows are passed over,
-- and leases are compared again. The settings keep a plan that was made while the table was empty.
create or replace function work.claim_after_steps(
  lease interval, answering integer, unproven integer, unread integer, known jsonb
) returns table (
  transfer_id text, claim_id text, tries integer, refusals integer, begun boolean,
  endpoint_id text, error jsonb
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(hashtextextended('waybill claims of steps', 0));
  return query
    with recursive waiting as (
      (select endpoint_id from work.after_steps order by endpoint_id limit 1)
      union all
      select next.* from waiting w cross join lateral (
        select endpoint_id from work.after_steps s
         where s.endpoint_id > w.endpoint_id order by s.endpoint_id limit 1) next
    ),
    open as (
      select endpoint_id, kind, places, coalesce((k ->> 'turn')::integer, 0) as turn,
             least(places, case kind when 'unread' then places
                                     else coalesce((k ->> 'free')::integer, 1) end) as free
        from waiting
       cross join lateral (select known -> endpoint_id as k) of_caller
        join (values ('answering', answering), ('unproven', unproven), ('unread', unread))
          as kinds(kind, places)
          on kind = case when endpoint_id = '' then 'unread'
                         when (k -> 'answers')::boolean then 'answering' else 'unproven' end
       where not coalesce((
         select e.paused or exists (
                  select from work.sign_in_holds h
                   where h.endpoint_id = e.endpoint_id and h.until > now()
                     and h.credentials_record = e.state ->> 'credentials_record')
           from read.endpoints e
          -- the collation of its index
          where e.endpoint_id = waiting.endpoint_id collate "default"), false)
    ),
    due as (
      select s.transfer_id, open.places,
             row_number() over (
               partition by open.kind order by s.round, open.turn, s.due_at) as place
        from open cross join lateral (
          select transfer_id, due_at, row_number() over (order by due_at) as round
            from work.after_steps a
           where a.endpoint_id = open.endpoint_id and due_at <= now()
             and (lease_until is null or lease_until < now())
           order by due_at limit open.free) s
    ),
    chosen as (
      select s.transfer_id from due join work.after_steps s using (transfer_id)
       where due.place <= due.places and (s.lease_until is null or s.lease_until < now())
         for update of s skip locked
    )
    update work.after_steps s
       set claim_id = gen_random_uuid()::text, lease_until = now() + lease
      from chosen where s.transfer_id = chosen.transfer_id
    returning s.transfer_id, s.claim_id, s.tries, s.refusals, s.begun, s.endpoint_id, s.error;
end $$;
