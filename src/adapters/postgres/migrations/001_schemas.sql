-- The events of the Postgres engine: never dropped, never changed.
create schema if not exists log;
-- The schema read is made by the projections: it may be dropped, and is made anew from the log at the next start.
-- Working state that the log does not hold: to-do rows, leases, deliveries, vault, idempotency keys.
create schema if not exists work;
