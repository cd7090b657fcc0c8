import type { EventStore } from '../../src/adapters/event-store/port.ts';
import type { NewEvent } from '../../src/domain/events/event.ts';
import { eventHash } from '../../src/domain/events/event-hash.ts';
import { newId } from '../../src/domain/ids.ts';

export type Appender = Pick<EventStore, 'append'>;

export interface Appends {
  perSecond: number;
  /** Milliseconds. */
  latencies: number[];
}

/** Lets each caller append to its own streams, one event after the other, ten to a stream. */
export async function appendFor(callers: Appender[], seconds: number): Promise<Appends> {
  const latencies: number[] = [];
  const started = performance.now();
  const until = started + seconds * 1_000;
  await Promise.all(
    callers.map(async (store) => {
      let last: NewEvent | null = null;
      for (let n = 0, stream = ''; performance.now() < until; n++) {
        const revision = n % 10;
        if (revision === 0) {
          stream = `bench-${newId('txr')}`;
          last = null;
        }
        const event = newEvent(last);
        const before = performance.now();
        await store.append(stream, revision === 0 ? 'no_stream' : revision - 1, [event]);
        last = event;
        latencies.push(performance.now() - before);
      }
    }),
  );
  return { perSecond: latencies.length / ((performance.now() - started) / 1_000), latencies };
}

/** Returns an event that continues a stream after its last one, or begins it. */
export function newEvent(last: NewEvent | null = null): NewEvent {
  const occurred_at = new Date().toISOString();
  return {
    id: newId('evt'),
    type: 'bench.happened',
    schema_version: 1,
    data: {
      source: 'sftp://hospital/lab/0123456789.pdf',
      destination: 'sftp://bank/inbox/0123456789.pdf',
      filler: 'x'.repeat(300),
    },
    metadata: {
      actor: 'bench',
      account_id: null,
      correlation_id: 'bench',
      causation_id: null,
      occurred_at,
      prev_hash: last && eventHash(last),
    },
  };
}
