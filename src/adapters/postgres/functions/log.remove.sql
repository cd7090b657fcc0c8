-- version: 1
-- Removes whole streams that the event at this place in the log names, and keeps their positions. The
-- trigger of `log.refuse_removal` compares. Does nothing for streams that are gone.
create or replace function log.remove(streams text[], record_stream text, record_revision integer)
returns void language plpgsql as $$
begin
  perform set_config('waybill.retention_stream', record_stream, true),
          set_config('waybill.retention_revision', record_revision::text, true);
  with gone as (
    delete from log.events where stream = any(streams) returning position
  )
  insert into log.removed (positions)
  select unnest(range_agg(int8range(position, position, '[]'))) from gone;
end $$;
