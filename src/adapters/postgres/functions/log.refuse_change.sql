-- version: 2
-- Keeps the log append-only, also for its owner. `log.refuse_removal` looks at deletions.
create or replace function log.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'log.% is append-only', tg_table_name;
end $$;

create or replace trigger append_only before update or truncate on log.events
  for each statement execute function log.refuse_change();
create or replace trigger append_only before update or delete or truncate on log.removed
  for each statement execute function log.refuse_change();
