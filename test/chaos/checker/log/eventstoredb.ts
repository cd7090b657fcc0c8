import { EventStoreDBClient, FORWARDS, START } from '@eventstore/db-client';
import type { Report } from '../report.ts';
import { type LoggedEvent, NAMES, streamOf } from './event.ts';

const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** Reads the streams under a prefix from `$all`, in its order. Commit positions must rise. */
export async function* readEventStoreDb(
  url: string,
  prefix: string,
  report: Report,
): AsyncGenerator<LoggedEvent> {
  const client = EventStoreDBClient.connectionString(url);
  let last = -1n;
  try {
    for await (const { event } of client.readAll({ direction: FORWARDS, fromPosition: START })) {
      if (!event?.streamId.startsWith(prefix) || event.type.startsWith('$')) continue;
      const stream = event.streamId.slice(prefix.length);
      if (stream !== 'log' && !stream.startsWith(NAMES) && streamOf(stream) === null) continue;
      const { schema_version, ...metadata } = (event.metadata ?? {}) as Record<string, unknown>;
      if (typeof schema_version !== 'number' || !('prev_hash' in metadata)) {
        report.finding(
          'log.form',
          `${stream} revision ${event.revision}`,
          'the record lacks schema_version or prev_hash',
        );
        continue;
      }
      const position = event.position.commit;
      if (position <= last) {
        report.finding(
          'log.positions',
          `position ${position}`,
          `${event.id} of ${stream} follows position ${last}`,
        );
      }
      last = position;
      yield {
        position,
        stream,
        revision: Number(event.revision),
        id: `evt_${ulidOf(event.id)}`,
        type: event.type,
        schema_version,
        data: event.data as LoggedEvent['data'],
        metadata: metadata as LoggedEvent['metadata'],
      };
    }
  } finally {
    await client.dispose();
  }
}

/** The 128 bits of a UUID in the 26 characters of a ULID. */
function ulidOf(uuid: string): string {
  let bits = BigInt(`0x${uuid.replaceAll('-', '')}`);
  let text = '';
  for (let i = 0; i < 26; i += 1) {
    text = BASE32[Number(bits & 31n)] + text;
    bits >>= 5n;
  }
  return text;
}
