import type { StoredEvent } from '../events/event.ts';

/** The log, or the tree over it, is not the one that was signed. The message says what differs. */
export class LogChanged extends Error {
  override readonly name = 'LogChanged';
}

/** What to do if the log has what Waybill does not write. */
export const KEEP_LOG =
  'Keep the log and the tables as they are, and compare them with an export kept elsewhere';

/** What to do if only the tables of the tree may have been changed. */
export const PROOF_REMEDY =
  'Compare: waybill projections verify proof. If the log is as it was signed, rebuild the tables: ' +
  'waybill projections rebuild proof';

/** Creates the error for an event that Waybill cannot have written. */
export function notWritten(
  { stream, revision, id, position }: Pick<StoredEvent, 'stream' | 'revision' | 'id' | 'position'>,
  problem: string,
): LogChanged {
  return new LogChanged(
    `${stream} revision ${revision} (${id}) at position ${position} was changed: ${problem}. ` +
      KEEP_LOG,
  );
}
