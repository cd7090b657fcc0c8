-- version: 6
-- Returns which of these webhooks have a delivery that is due, without deliveries of the claims
-- `own`. Reads the due rows of each webhook up to the first that is not of these claims. The
-- settings keep a plan that was made while nothing was pending.
--
-- A delivery of one of these transfers is also due if it had no attempt. It was due when it was
-- inserted, but the clock may have stepped back since, and newer events of its transfer must not
-- overtake it. Only these are looked for: after an outage, very many retries of a webhook may be due
-- later, and this would read all of them. Without any that is due later, none is looked for.
create or replace function work.due_webhooks(
  webhooks text[], own text[], at timestamptz, transfers text[]
) returns text[]
language sql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
  select array(
    select webhook from unnest(webhooks) as webhook
     where exists (
       select from work.pending_deliveries p
        where p.webhook_id = webhook and p.due_at <= at
          and (p.claim_id is null or p.claim_id <> all(own))
       -- forces one index scan per webhook: a hash could read the rows of all webhooks
       offset 0)
        or (exists (
       select from work.pending_deliveries p
        where p.webhook_id = webhook and p.due_at > at
       offset 0)
        and webhook = any(array(
       select untried.webhook_id from unnest(transfers) as transfer cross join lateral (
         select p.webhook_id from work.pending_deliveries p
          where p.transfer_id = transfer and p.tries = 0 and p.due_at > at
            and (p.claim_id is null or p.claim_id <> all(own))
         -- forces one index scan per transfer: a join could read all untried rows
         offset 0) untried))))
$$;
