-- version: 1
-- Keeps the log append-only, also for its owner.
create or replace function log.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'log.% is append-only', tg_table_name;
end $$;

create or replace trigger append_only before update or delete or truncate on log.events
  for each statement execute function log.refuse_change();
