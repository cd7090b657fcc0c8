-- version: 1
-- Keeps events in the log, also for its owner: only whole streams of transfers may leave it, and only
-- after the event `log.retention_recorded` that names each of their events. `log.remove` says which
-- event that is.
create or replace function log.refuse_removal() returns trigger language plpgsql as $$
begin
  if exists (
    select from (select stream, array_agg(id order by revision) as ids from gone group by stream) g
      left join (
        select left(e.stream, -length('log-retention')) || 'transfer-' || (t ->> 'transfer_id')
                 as stream,
               (select array_agg(n ->> 'id' collate "C" order by place)
                  from jsonb_array_elements(t -> 'events') with ordinality as named(n, place)) as ids
          from log.events e, jsonb_array_elements(e.data::jsonb -> 'transfers') t
         where e.stream = current_setting('waybill.retention_stream', true)
           and e.stream like '%log-retention'
           and e.revision = nullif(current_setting('waybill.retention_revision', true), '')::integer
           and e.type = 'log.retention_recorded') named
        using (stream)
     where named.ids is distinct from g.ids)
  then
    raise exception 'log.events is append-only: only whole transfers leave it, which the record of '
      'retention at "%" % names',
      current_setting('waybill.retention_stream', true),
      current_setting('waybill.retention_revision', true);
  end if;
  return null;
end $$;

create or replace trigger whole_streams after delete on log.events
  referencing old table as gone
  for each statement execute function log.refuse_removal();
