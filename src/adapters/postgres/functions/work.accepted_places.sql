-- version: 1
-- Returns how many transfers may use an endpoint whose server has refused a connection, by a row of
-- `work.fewer_places`. Each minute without a refusal adds a place. Null if the limit has ended, ten
-- minutes after the last refusal. A concurrent refusal may be later than this transaction.
create or replace function work.accepted_places(places integer, until timestamptz)
returns integer
language sql stable as $$
  select places + greatest(0, floor(extract(epoch from now() + interval '10 minutes' - until) / 60))::integer
   where until > now()
$$;
