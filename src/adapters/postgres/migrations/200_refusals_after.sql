-- Refusals of the current step, apart from `tries`: those count failures to connect or sign in. An
-- outage then leaves a step all its retries.
alter table work.after_steps add column refusals integer not null default 0;
