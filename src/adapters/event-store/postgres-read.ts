/*
 * Reads batches of the log in Postgres. A batch is one row, with one text for each column: the driver
 * takes longer for a thousand rows than for the parse of their events.
 */
import type { EventMetadata, StoredEvent } from '../../domain/event.ts';
import type { Sql } from '../postgres/connect.ts';
import type { Batch } from './port.ts';

/** The record separator. No JSON has it as it is, and no name of ours has it. */
const SEPARATOR = '\x1e';

/** Each column as a text; null without an event. */
interface Columns {
  head: bigint;
  position: string | null;
  stream: string;
  revision: string;
  id: string;
  type: string;
  schema_version: string;
  data: string;
  metadata: string;
}

/**
 * Returns the events after `from` in streams whose names, with the prefix, start with one of `names`,
 * and the head of the log in the same snapshot.
 */
export async function readAfter(
  sql: Sql,
  prefix: string,
  from: bigint,
  limit: number,
  names: string[],
): Promise<Batch> {
  const [row] = await sql<[Columns]>`
    select h.position as head, e.*
      from log.head h
     cross join lateral (
       select string_agg(position::text, ${SEPARATOR}) as position,
              string_agg(stream, ${SEPARATOR}) as stream,
              string_agg(revision::text, ${SEPARATOR}) as revision,
              string_agg(id, ${SEPARATOR}) as id,
              string_agg(type, ${SEPARATOR}) as type,
              string_agg(schema_version::text, ${SEPARATOR}) as schema_version,
              string_agg(data, ${SEPARATOR}) as data,
              string_agg(metadata, ${SEPARATOR}) as metadata
         from (
           select * from log.events
            where position > ${from} and position <= h.position and stream ^@ any(${names}::text[])
            order by position limit ${limit}) found) e`;
  const events = row.position === null ? [] : eventsOf(row, row.position, prefix.length);
  const full = events.length === limit;
  const position = full ? (events.at(-1) as StoredEvent).position : row.head;
  return { events, position, caughtUp: !full };
}

function eventsOf(row: Columns, positions: string, prefixLength: number): StoredEvent[] {
  const split = (column: string) => column.split(SEPARATOR);
  const streams = split(row.stream);
  const revisions = split(row.revision);
  const ids = split(row.id);
  const types = split(row.type);
  const versions = split(row.schema_version);
  const datas = split(row.data);
  const metadatas = split(row.metadata);
  const events = split(positions).map(
    (position, i): StoredEvent => ({
      id: ids[i] as string,
      type: types[i] as string,
      schema_version: Number(versions[i]),
      data: JSON.parse(datas[i] as string),
      metadata: JSON.parse(metadatas[i] as string) as EventMetadata,
      stream: (streams[i] as string).slice(prefixLength),
      revision: Number(revisions[i]),
      position: BigInt(position),
    }),
  );
  for (const column of [streams, ids, types, datas, metadatas])
    if (column.length !== events.length)
      throw new Error(
        `An event between the positions ${events[0]?.position} and ${events.at(-1)?.position} has ` +
          'a record separator (U+001E) in a column: it was not written by Waybill',
      );
  return events;
}
