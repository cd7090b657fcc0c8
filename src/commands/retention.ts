import { type EventStore, RevisionConflict } from '../adapters/event-store/port.ts';
import { DomainError } from '../domain/errors.ts';
import { chain } from '../domain/events/chain.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { RETENTION } from '../domain/events/streams.ts';
import type { RemovedTransfer, RetentionRecorded } from '../domain/retention.ts';
import { type Cause, causationOf } from './handle.ts';

/** Largest record. A thousand of them fit into the memory of a consumer. */
const RECORD_BYTES = 32 * 1_024;
/** Records of one append. An EventStoreDB takes 1 MiB at a time. */
const AT_ONCE = 16;

/**
 * Appends the records that these transfers leave the log. `after` is a revision of the stream that
 * is known to exist, to start reading there. Throws `unavailable` if another process writes to it.
 */
export async function appendRecords(
  store: EventStore,
  after: number | null,
  { transfers, ...facts }: RetentionRecorded,
  cause: Cause,
): Promise<void> {
  const records = pagesOf(transfers).map((page) => ({
    type: 'log.retention_recorded' as const,
    data: { ...facts, transfers: page },
  }));
  const last: StoredEvent | undefined = (await store.read(RETENTION, after ?? 0)).at(-1);
  const now = new Date().toISOString();
  const chained = chain(records, last ?? null, causationOf(cause, null), { now });
  let expected = last?.revision ?? -1;
  for (let i = 0; i < chained.length; i += AT_ONCE) {
    const some = chained.slice(i, i + AT_ONCE);
    await store.append(RETENTION, expected < 0 ? 'no_stream' : expected, some).catch(translate);
    expected += some.length;
  }
}

/**
 * Appends the event that all transfers of earlier records have left the log. `last` is the last
 * event of the stream when they were removed. Returns false if the stream has a later one: its
 * transfers may be in the log.
 */
export async function appendCompleted(
  store: EventStore,
  last: StoredEvent,
  cause: Cause,
): Promise<boolean> {
  const now = new Date().toISOString();
  const completed = { type: 'log.retention_completed', data: { completed_at: now } };
  const events = chain([completed], last, causationOf(cause, null), { now });
  try {
    await store.append(RETENTION, last.revision, events);
    return true;
  } catch (error) {
    if (error instanceof RevisionConflict) return false;
    throw error;
  }
}

function translate(error: unknown): never {
  if (!(error instanceof RevisionConflict)) throw error;
  throw new DomainError(
    'unavailable',
    'Another process records retention; try again in a moment',
    {},
    {
      cause: error,
    },
  );
}

function pagesOf(transfers: RemovedTransfer[]): RemovedTransfer[][] {
  const pages: RemovedTransfer[][] = [];
  let room = 0;
  for (const transfer of transfers) {
    const bytes = JSON.stringify(transfer).length;
    if (pages.length === 0 || bytes > room) {
      pages.push([]);
      room = RECORD_BYTES;
    }
    pages.at(-1)?.push(transfer);
    room -= bytes;
  }
  return pages;
}
