-- Since when an endpoint has an error. Null without one, and for an error from before this migration.
alter table work.endpoint_health add column error_since timestamptz;
-- When the first sign-in in a row was rejected. Null for a rejection from before this migration.
alter table work.sign_in_holds add column since timestamptz;
alter table work.sign_in_holds alter column since set default now();
