-- The events of the Postgres engine: never dropped, never changed.
create schema if not exists log;
-- Projections: may be dropped and rebuilt from the log at any time.
create schema if not exists read;
-- Working state that the log does not hold: to-do rows, leases, deliveries, vault, idempotency keys.
create schema if not exists work;
