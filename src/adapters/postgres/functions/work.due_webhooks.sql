-- version: 2
-- Returns which of these webhooks have a delivery that is due, without deliveries of the claims
-- `own`. Reads the due rows of each webhook up to the first that is not of these claims. The
-- settings keep a plan that was made while nothing was pending.
--
-- A delivery without an attempt is always due. It was due when it was inserted, but the clock may
-- have stepped back since, and newer events must not overtake it.
create or replace function work.due_webhooks(webhooks text[], own text[], at timestamptz)
returns text[]
language sql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
  select array(
    select webhook from unnest(webhooks) as webhook
     where exists (
       select from work.pending_deliveries p
        where p.webhook_id = webhook and p.due_at <= at
          and (p.claim_id is null or p.claim_id <> all(own)))
        or exists (
       select from work.pending_deliveries p
        where p.webhook_id = webhook and p.due_at > at and p.tries = 0
          and (p.claim_id is null or p.claim_id <> all(own))))
$$;
