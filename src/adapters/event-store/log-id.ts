import { randomUUID } from 'node:crypto';
import { DomainError } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { SIGNING_KEYS } from '../../domain/events/streams.ts';
import { newId } from '../../domain/ids.ts';
import { KEEP_LOG, LogChanged } from '../../domain/proof/log-changed.ts';
import { type FollowedLog, refuseEngine } from './engine-of-log.ts';
import { type EventStore, RevisionConflict } from './port.ts';

const STREAM = 'log';

/**
 * Returns the random id that distinguishes this log from every other, including a restored older
 * copy under another engine. The first process that opens a log writes the id. `followed` returns
 * the log that the tables know, if any: then an empty log is not a new one.
 *
 * Throws the errors of the store, EventStoreSettingsError if the tables follow the other engine,
 * LogChanged if the first event was removed or changed, and `not_found` if there is no log and
 * `begins` is false. It has written nothing then. `beforeBegin` gets the id of a new log before the
 * event is written. If another process writes its event first, no log has that id.
 */
export async function openLog(
  store: EventStore,
  followed: () => Promise<FollowedLog | null> = async () => null,
  {
    begins = true,
    beforeBegin = async () => undefined,
  }: { begins?: boolean; beforeBegin?: (logId: string) => Promise<void> } = {},
): Promise<string> {
  const known = (await readLogId(store)) ?? (await unlessBegun(store));
  if (known !== null) return known;
  const lost = await followed();
  if (lost !== null) return unlessLost(store, lost);
  if (!begins) throw noLog();
  const log_id = randomUUID();
  await beforeBegin(log_id);
  const metadata = {
    actor: 'system',
    account_id: null,
    correlation_id: newId('req'),
    causation_id: null,
    prev_hash: null,
  };
  const occurred_at = new Date().toISOString();
  try {
    await store.append(STREAM, 'no_stream', [
      {
        id: newId('evt'),
        type: 'log.opened',
        schema_version: 1,
        data: { log_id },
        metadata: { ...metadata, occurred_at },
      },
    ]);
    return log_id;
  } catch (error) {
    const winner = error instanceof RevisionConflict ? await readLogId(store) : null;
    if (winner === null) throw error;
    return winner;
  }
}

/** Creates the error for a reader that finds no log, and begins none. */
export function noLog(): DomainError {
  return new DomainError(
    'not_found',
    'There is no log here, and nothing was written. Check DATABASE_URL, EVENTSTORE_URL, ' +
      'WAYBILL_STREAM_PREFIX and WAYBILL_DATA_DIR, which is relative to the current folder',
  );
}

async function readLogId(store: EventStore): Promise<string | null> {
  const [first] = await store.read(STREAM);
  if (first === undefined) return null;
  const { log_id } = (first.data ?? {}) as { log_id?: unknown };
  if (first.type !== 'log.opened' || typeof log_id !== 'string') {
    throw new LogChanged(
      `The stream "${STREAM}" starts with ${first.type} ${first.id}, not with log.opened and an ` +
        `id: this is not a log of Waybill, or it was changed. ${KEEP_LOG}`,
    );
  }
  return log_id;
}

/**
 * Returns the id that another process has just written, or null for an empty log. Throws LogChanged
 * for a log that has events, and not the first one. Of an EventStoreDB only one stream is read, which
 * every log has: it may be full of events of other programs.
 */
async function unlessBegun(store: EventStore): Promise<string | null> {
  if (store.engine !== 'postgres') {
    const [event] = await store.read(SIGNING_KEYS, 0, 1);
    return event === undefined ? null : unlessRemoved(store, event);
  }
  const { signal } = new AbortController();
  for await (const { events, caughtUp } of store.subscribe({ from: null, signal, batchSize: 1 })) {
    const [event] = events;
    if (event === undefined && !caughtUp) continue;
    return event === undefined ? readLogId(store) : unlessRemoved(store, event);
  }
  return null;
}

async function unlessRemoved(
  store: EventStore,
  { stream, revision, id, position }: StoredEvent,
): Promise<string> {
  const known = await readLogId(store);
  if (known !== null) return known;
  throw new LogChanged(
    `The log begins with ${stream} revision ${revision} (${id}) at position ${position}. Its ` +
      `first event, log.opened, was removed. ${KEEP_LOG}`,
  );
}

/** Returns the id that another process has just written. Throws if the known log is lost. */
async function unlessLost(store: EventStore, { logId, engine }: FollowedLog): Promise<string> {
  const known = await readLogId(store);
  if (known !== null) return known;
  if (engine !== null) refuseEngine(engine, store.engine);
  const [place, settings] =
    store.engine === 'postgres'
      ? ['Postgres', 'DATABASE_URL and WAYBILL_STREAM_PREFIX']
      : ['the EventStoreDB', 'EVENTSTORE_URL, DATABASE_URL and WAYBILL_STREAM_PREFIX'];
  throw new LogChanged(
    `The tables of this database follow ${logId === null ? 'a log' : `the log ${logId}`}, and ` +
      `${place} has no event of it. Nothing was written. Check ${settings}. If they are right, ` +
      'the events were removed: stop all processes, keep the stores as they are, and follow ' +
      '"Back-up and restore" in docs/operators.md. A new log needs a new database',
  );
}
