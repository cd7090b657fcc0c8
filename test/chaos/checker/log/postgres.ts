import type { Sql } from '../database.ts';
import type { Report } from '../report.ts';
import type { LoggedEvent } from './event.ts';

const BATCH = 2_000;

interface Row extends Omit<LoggedEvent, 'position' | 'data' | 'metadata'> {
  position: string;
  data: string;
  metadata: string;
}

/**
 * Reads the embedded log in its order. Positions must rise by one, and end at the position in the
 * head row. Every stream must belong to the installation.
 */
export async function* readPostgresLog(
  sql: Sql,
  prefix: string,
  report: Report,
): AsyncGenerator<LoggedEvent> {
  let last = 0n;
  const rows = sql<Row[]>`
    select position::text, stream, revision, id, type, schema_version, data, metadata
      from log.events order by log.events.position`;
  for await (const batch of rows.cursor(BATCH)) {
    for (const { position, data, metadata, ...row } of batch) {
      const place = BigInt(position);
      if (place !== last + 1n) {
        report.finding(
          'log.positions',
          `position ${position}`,
          `${row.id} of ${row.stream} follows position ${last}`,
        );
      }
      last = place;
      if (!row.stream.startsWith(prefix)) {
        report.finding(
          'log.form',
          `position ${position}`,
          `the stream ${row.stream} does not begin with ${prefix}`,
        );
        continue;
      }
      const stream = row.stream.slice(prefix.length);
      yield {
        ...row,
        stream,
        position: place,
        data: JSON.parse(data),
        metadata: JSON.parse(metadata),
      };
    }
  }
  const [head] = await sql<{ position: string }[]>`select position::text from log.head`;
  if (head?.position !== String(last)) {
    report.finding(
      'log.positions',
      'log.head',
      `it says ${head?.position}, and the last event has position ${last}`,
    );
  }
}
