import type { Fields } from './event.ts';
import type { Step, TransferState } from './fold-transfer.ts';

/** What follows a completed transfer, as `facts.after` has it. */
export interface Requested extends Fields {
  source: 'keep' | 'delete' | { move_to: string };
  destination_marker: string | null;
}

interface Outcome {
  type: string;
  data: Fields;
}

/** What the steps have done so far, as `after` of a completed transfer has it. */
export interface Outcomes {
  marker?: Outcome;
  source?: Outcome;
}

export const AFTER_EVENTS: readonly string[] = [
  'transfer.marker_written',
  'transfer.marker_failed',
  'transfer.source_deleted',
  'transfer.source_moved',
  'transfer.source_kept',
];

/** Returns the state after the outcome of a step, or why the outcome cannot follow. */
export function afterStep(before: TransferState, type: string, data: Fields): Step {
  const problem = problemOf(before, type, data);
  if (problem !== null) return { problem };
  const step = type.startsWith('transfer.marker_') ? 'marker' : 'source';
  return { state: { ...before, after: { ...before.after, [step]: { type, data } } } };
}

function problemOf(before: TransferState, type: string, data: Fields): string | null {
  const { facts, after: done = {}, source_version } = before;
  const asked = facts.after;
  if (!asked) return `${type}, and nothing was asked for after the transfer`;
  if (done.source) return `${type} follows ${done.source.type}`;
  if (type.startsWith('transfer.marker_')) {
    if (done.marker) return `${type} follows ${done.marker.type}`;
    const marker = asked.destination_marker && facts.destination + asked.destination_marker;
    return data.marker === marker ? null : `its marker is ${data.marker}, and not ${marker}`;
  }
  if (asked.source === 'keep') return `${type}, and the source was to be kept`;
  if (asked.destination_marker !== null && !done.marker) return `${type} comes before the marker`;
  if (type === 'transfer.source_kept') return null;
  if (done.marker?.type === 'transfer.marker_failed') return `${type} without the marker`;
  const { size_bytes, version } = data.source_file as Fields;
  if (size_bytes !== facts.size_bytes || version !== source_version || version === null)
    return `${type} of ${size_bytes} bytes, ${version}: ${facts.size_bytes}, ${source_version} was copied`;
  if (type === 'transfer.source_deleted')
    return asked.source === 'delete' ? null : `${type}, and the source was to be moved`;
  if (typeof asked.source === 'string') return `${type}, and the source was to be deleted`;
  const folder = facts.source.slice(0, facts.source.lastIndexOf('/') + 1) + asked.source.move_to;
  return String(data.moved_to).startsWith(folder) ? null : `${type} to ${data.moved_to}`;
}

/** Returns true if all that was asked for after a transfer has an outcome. */
export function isDone({ status, facts, after = {} }: TransferState): boolean {
  const asked = facts.after;
  if (status !== 'completed' || !asked) return true;
  return (
    (asked.destination_marker === null || after.marker !== undefined) &&
    (asked.source === 'keep' || after.source !== undefined)
  );
}

/** Returns `after` of the answer of the API, for a transfer that has ended. */
export function shownAfter({ status, facts, after = {} }: TransferState): Fields {
  const { marker, source } = after;
  const refused = [marker, source].find((one) => one && /_(failed|kept)$/.test(one.type));
  const last = source ?? marker;
  const times = ['written_at', 'failed_at', 'deleted_at', 'moved_at', 'kept_at'];
  return {
    ...facts.after,
    state: status === 'completed' && !refused ? 'done' : 'not_done',
    marker: marker?.type === 'transfer.marker_written' ? marker.data.marker : null,
    moved_to: source?.data.moved_to ?? null,
    reason: refused?.data.reason ?? null,
    ended_at: times.map((name) => last?.data[name]).find((time) => time !== undefined) ?? null,
  };
}
