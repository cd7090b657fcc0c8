-- The events of the Postgres engine. Never changed, never removed.
create table log.head (
  "only" boolean primary key default true check ("only"),
  position bigint not null
);
insert into log.head (position) values (0);

create table log.events (
  position bigint primary key,
  stream text collate "C" not null,
  revision integer not null,
  id text collate "C" not null,
  type text not null,
  schema_version integer not null,
  -- text, not jsonb: the very bytes that were hashed
  data text not null,
  metadata text not null,
  unique (stream, revision)
);

create function log.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'log.% is append-only', tg_table_name;
end $$;
create trigger append_only before update or delete or truncate on log.events
  for each statement execute function log.refuse_change();

-- Appends to several streams, each named once, in one call. An expected revision of -1 means no stream;
-- each event names its append (owners, from 1) and its place in it (from 1). Answers for each append, in
-- order: the revision and position of its last event, or, with a position of null, the revision that was
-- found instead of the expected one. An append that was made before, with the same ids at the same
-- revisions, is answered as it was then. The head row is locked first: so positions have no gaps and
-- become visible in their order.
create function log.append(
  streams text[], expected integer[], counts integer[],
  owners integer[], places integer[], ids text[], types text[], schema_versions integer[], datas text[], metadatas text[]
) returns table (revision integer, "position" bigint) language plpgsql as $$
#variable_conflict use_column
declare
  head bigint;
  next bigint;
  found integer[];
  base bigint[];
begin
  select h.position into head from log.head h for update;

  select array_agg(coalesce((select max(e.revision) from log.events e where e.stream = a.stream), -1) order by a.ord)
    into found
    from unnest(streams) with ordinality as a(stream, ord);
  next := head;
  for i in 1 .. cardinality(streams) loop
    if found[i] = expected[i] then
      base[i] := next;
      next := next + counts[i];
    end if;
  end loop;

  if next > head then
    insert into log.events (position, stream, revision, id, type, schema_version, data, metadata)
      select base[n.owner] + n.place, streams[n.owner], expected[n.owner] + n.place,
             n.id, n.type, n.schema_version, n.data, n.metadata
        from unnest(owners, places, ids, types, schema_versions, datas, metadatas)
          as n(owner, place, id, type, schema_version, data, metadata)
       where base[n.owner] is not null;
    update log.head set position = next;
    perform pg_notify('waybill_log', next::text);
  end if;

  for i in 1 .. cardinality(streams) loop
    revision := expected[i] + counts[i];
    position := base[i] + counts[i];
    if base[i] is null then
      select max(e.position) into position
        from unnest(owners, places, ids) as n(owner, place, id)
        join log.events e on e.stream = streams[i] and e.revision = expected[i] + n.place and e.id = n.id
       where n.owner = i
      having count(*) = counts[i];
      if position is null then
        revision := found[i];
      end if;
    end if;
    return next;
  end loop;
end $$;
