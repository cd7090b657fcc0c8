-- In exactly the order of the list of a webhook. It has an expression, so that no statement that looks
-- for due rows can choose it: by statistics from a time when all were due, it would seem as good.
create index pending_deliveries_listed
  on work.pending_deliveries ((webhook_id || ''), delivery_id);
