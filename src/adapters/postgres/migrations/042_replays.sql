-- One replay of a webhook: two that overlap are one that goes as far as both.
update work.webhook_replays r
   set position = merged.position, until_position = merged.until_position, since = merged.since
  from (select webhook_id, min(position) as position, max(until_position) as until_position,
               case when count(*) = count(since) then min(since) end as since
          from work.webhook_replays group by webhook_id) merged
 where merged.webhook_id = r.webhook_id;
delete from work.webhook_replays r using work.webhook_replays older where older.webhook_id = r.webhook_id and older.id < r.id;
create unique index webhook_replays_webhook on work.webhook_replays (webhook_id);
