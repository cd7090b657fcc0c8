import type { Logger } from 'pino';
import { type EventStore, RevisionConflict } from '../adapters/event-store/port.ts';
import { createBatcher } from '../concurrency/batcher.ts';
import type { AccessEvent } from '../domain/access.ts';
import { reasonOf } from '../domain/errors.ts';
import { chain } from '../domain/events/chain.ts';
import type { NewEvent } from '../domain/events/event.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { type Cause, causationOf } from './handle.ts';

/** How long records gather before one append. */
const GATHER_MS = 1_000;
/** Events of one stream, at most. Then the next stream begins. */
const EVENTS_PER_STREAM = 1_000;
/** Records of one append, at most. */
const AT_ONCE = 256;
/** Records that may wait for the store. Further ones are dropped, and their number is logged. */
const MAX_WAITING = 10_000;

/** One access, with the account whose data was read. Null for the installation. */
export interface Access {
  event: AccessEvent;
  cause: Cause;
  accountId: string | null;
}

export interface AccessLog {
  /** Resolves when the access is in the log. Throws EventStoreUnavailable. */
  record(access: Access): Promise<Recorded>;
  /** Records within about a second, or when the store is back. Never throws. */
  note(access: Access): void;
  /** Records what was noted, or gives up if the store does not take it. */
  close(): Promise<void>;
}

/** An access in the log. */
export interface Recorded {
  /** Id of the event. */
  id: string;
  /** Everything that the log had before has a lower position. */
  position: bigint;
}

export interface AccessLogDeps {
  store: EventStore;
  logger: Pick<Logger, 'warn' | 'error'>;
  /** 1 s by default. */
  accessGatherMs?: number | undefined;
}

interface Noted extends Access {
  at: string;
}

/**
 * Creates the access log of a process. It appends to streams of its own, `access-acs_...`, so no
 * other writer interferes and nothing is read before an append.
 *
 * An append that failed may have been carried out. It is repeated with the same ids before the next
 * one, so each access is in the log once.
 */
export function createAccessLog({
  store,
  logger,
  accessGatherMs = GATHER_MS,
}: AccessLogDeps): AccessLog {
  let stream = emptyStream();
  /** Events of an append whose answer is not known, with what they record. */
  let unsettled: { events: NewEvent[]; accesses: Noted[] } | null = null;
  const recorded = new WeakMap<Noted, Recorded>();
  const append = createBatcher(appendAll, { limit: AT_ONCE, answerWithinMs: null });
  const waiting: Noted[] = [];
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  let flushing = Promise.resolve();

  async function appendAll(accesses: Noted[]): Promise<Recorded[]> {
    await settle();
    const fresh = accesses.filter((access) => !recorded.has(access));
    if (fresh.length > 0) {
      if (stream.revision + fresh.length >= EVENTS_PER_STREAM) stream = emptyStream();
      unsettled = { events: eventsOf(fresh, stream.last), accesses: fresh };
      await settle();
    }
    return accesses.map((access) => recorded.get(access) as Recorded);
  }

  async function settle(): Promise<void> {
    if (unsettled === null) return;
    const { events, accesses } = unsettled;
    const { name, revision } = stream;
    let position: bigint;
    try {
      const result = await store.append(name, revision < 0 ? 'no_stream' : revision, events);
      position = result.position;
      stream = { name, revision: result.revision, last: events.at(-1) ?? null };
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error;
      // Another process has the same stream, such as a copy of this machine.
      logger.error({ err: error }, 'the stream of the access log has another writer');
      stream = emptyStream();
      unsettled = { events: eventsOf(accesses, null), accesses };
      return settle();
    }
    for (const [at, { id }] of events.entries())
      recorded.set(accesses[at] as Noted, { id, position });
    unsettled = null;
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    flushing = flushing.then(appendWaiting);
    return flushing;
  }

  /** Stops at the first failure, so that `record` never queues behind many failing appends. */
  async function appendWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const accesses = waiting.splice(0, AT_ONCE);
      const results = await Promise.allSettled(accesses.map(append));
      const failed = results.find((result) => result.status === 'rejected');
      if (!failed) continue;
      waiting.unshift(...accesses);
      logger.warn(
        { reason: reasonOf(failed.reason), waiting: waiting.length, dropped },
        'the access log could not be written; retrying in 1 s',
      );
      dropped = 0;
      return schedule();
    }
  }

  function schedule(): void {
    timer ??= setTimeout(() => void flush(), accessGatherMs).unref();
  }

  return {
    record: (access) => append({ ...access, at: new Date().toISOString() }),
    note(access) {
      if (waiting.length >= MAX_WAITING) dropped++;
      else waiting.push({ ...access, at: new Date().toISOString() });
      schedule();
    },
    async close() {
      await flush();
      clearTimeout(timer);
      if (waiting.length > 0)
        logger.error(
          { lost: waiting.length },
          'accesses are missing in the log: the event store did not answer before the process ended',
        );
    },
  };
}

interface AccessStream {
  name: string;
  revision: number;
  last: NewEvent | null;
}

function emptyStream(): AccessStream {
  return { name: streamName('access', newId('acs')), revision: -1, last: null };
}

/** Returns one event for each access. */
function eventsOf(accesses: Noted[], last: NewEvent | null): NewEvent[] {
  const events: NewEvent[] = [];
  for (const { event, cause, accountId, at } of accesses) {
    const causation = causationOf(cause, accountId);
    events.push(...chain([event], events.at(-1) ?? last, causation, { now: at }));
  }
  return events;
}
