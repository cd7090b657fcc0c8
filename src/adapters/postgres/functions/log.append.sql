-- version: 3
-- Appends to several streams in one call. `streams` names each stream once. An expected revision of
-- -1 means that there is no stream yet. `owners` says which append an event belongs to, `places` its
-- place in that append; both count from 1.
--
-- Returns one row for each append, in order: the revision and position of its last event. A null
-- position means a conflict; `revision` is then the one that was found. An append that repeats the
-- ids of an earlier one at the same revisions gets the answer of that one, with `appended` false.
--
-- `prev_hashes` has the hash of the event that each append continues; null is not compared. If the
-- stream has another event at that revision, the append is a conflict, and -3 the revision found: a
-- failover to a standby that lacks the last commits lets another writer reuse a revision.
--
-- The head row is locked first: positions have no gaps and become visible in order. The
-- notification names the kinds of the streams (the part before the first hyphen) and the new head.
--
-- A closed log takes events only from a copy into it (`into_copy`). Any other append raises WB001.
create or replace function log.append(
  streams text[], expected integer[], counts integer[],
  owners integer[], places integer[], ids text[], types text[], schema_versions integer[],
  datas text[], metadatas text[], into_copy boolean default false,
  prev_hashes text[] default null
) returns table (revision integer, "position" bigint, appended boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  is_closed boolean;
  head bigint;
  next bigint;
  found integer[];
  base bigint[];
begin
  select h.position, h.closed into head, is_closed from log.head h for update;
  if is_closed and not into_copy then
    raise exception 'the log in Postgres is closed' using errcode = 'WB001';
  end if;

  select array_agg(
           coalesce(
             (select case
                       when a.prev_hash is null or e.revision <> expected[a.ord] or a.prev_hash =
                            encode(sha256(convert_to(
                              '{"data":' || e.data || ',"id":"' || e.id || '","metadata":' ||
                              e.metadata || ',"schema_version":' || e.schema_version ||
                              ',"type":"' || e.type || '"}', 'UTF8')), 'hex')
                       then e.revision else -3 end
                from log.events e where e.stream = a.stream order by e.revision desc limit 1),
             -1)
           order by a.ord)
    into found
    from unnest(streams, prev_hashes) with ordinality as a(stream, prev_hash, ord);
  next := head;
  for i in 1 .. cardinality(streams) loop
    if found[i] = expected[i] then
      base[i] := next;
      next := next + counts[i];
    end if;
  end loop;

  if next > head then
    insert into log.events
      (position, stream, revision, id, type, schema_version, data, metadata)
      select base[n.owner] + n.place, streams[n.owner], expected[n.owner] + n.place,
             n.id, n.type, n.schema_version, n.data, n.metadata
        from unnest(owners, places, ids, types, schema_versions, datas, metadatas)
          as n(owner, place, id, type, schema_version, data, metadata)
       where base[n.owner] is not null;
    update log.head set position = next;
    perform pg_notify(
      'waybill_log',
      (select string_agg(distinct split_part(s, '-', 1), ' ') from unnest(streams) s)
        || ' ' || next);
  end if;

  for i in 1 .. cardinality(streams) loop
    revision := expected[i] + counts[i];
    position := base[i] + counts[i];
    appended := base[i] is not null;
    if not appended then
      select max(e.position) into position
        from unnest(owners, places, ids) as n(owner, place, id)
        join log.events e
          on e.stream = streams[i] and e.revision = expected[i] + n.place and e.id = n.id
       where n.owner = i
      having count(*) = counts[i];
      if position is null then
        revision := found[i];
      end if;
    end if;
    return next;
  end loop;
end $$;
