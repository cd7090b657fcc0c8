import { randomUUID } from 'node:crypto';
import { newId } from '../../domain/ids.ts';
import { type EventStore, RevisionConflict } from './port.ts';

const STREAM = 'log';

/**
 * Returns the random id that distinguishes this log from every other, including a restored older
 * copy under another engine. The first process that opens a log writes the id. Throws the errors of
 * the store, and Error if the `log` stream starts with another event.
 */
export async function openLog(store: EventStore): Promise<string> {
  const known = await readLogId(store);
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
    throw new Error(
      `The stream "${STREAM}" starts with ${first.type} ${first.id}, not with log.opened: ` +
        'this is not a log of Waybill',
    );
  }
  return log_id;
}
