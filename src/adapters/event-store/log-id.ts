import { randomUUID } from 'node:crypto';
import { newId } from '../../domain/ids.ts';
import { KEEP_LOG, LogChanged } from '../../domain/proof/log-changed.ts';
import { type EventStore, RevisionConflict } from './port.ts';

const STREAM = 'log';

/**
 * Returns the random id that distinguishes this log from every other, including a restored older
 * copy under another engine. The first process that opens a log writes the id. Throws the errors of
 * the store, and LogChanged if the first event was removed or changed.
 */
export async function openLog(store: EventStore): Promise<string> {
  const known = (await readLogId(store)) ?? (await unlessBegun(store));
  if (known !== null) return known;
  const log_id = randomUUID();
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

async function readLogId(store: EventStore): Promise<string | null> {
  const [first] = await store.read(STREAM);
  if (first === undefined) return null;
  const { log_id } = first.data as { log_id?: unknown };
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
 * for a log that has events, and not the first one. An EventStoreDB is not asked: it may be full of
 * events of other programs.
 */
async function unlessBegun(store: EventStore): Promise<string | null> {
  if (store.engine !== 'postgres') return null;
  const { signal } = new AbortController();
  for await (const { events, caughtUp } of store.subscribe({ from: null, signal, batchSize: 1 })) {
    const [event] = events;
    if (event === undefined && !caughtUp) continue;
    const known = await readLogId(store);
    if (known !== null || event === undefined) return known;
    throw new LogChanged(
      `The log begins with ${event.stream} revision ${event.revision} (${event.id}) at position ` +
        `${event.position}. Its first event, log.opened, was removed. ${KEEP_LOG}`,
    );
  }
  return null;
}
