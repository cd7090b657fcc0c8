import { DomainError } from './errors.ts';
import type { Fold } from './events/decider.ts';
import { type Event, eventGuard, type StoredEvent } from './events/event.ts';
import { RETENTION, streamName } from './events/streams.ts';
import type { Hash } from './proof/hash.ts';

/** An event that leaves the log, as the tree still knows it. */
export interface RemovedEvent {
  id: string;
  /** Place of its leaf in the tree, from 0. */
  index: number;
  /** Its position in the log that it left; a decimal string. A copy of that log has others. */
  position: string;
  /** Hash of its leaf, in lowercase hex. */
  hash: string;
}

export interface RemovedTransfer {
  transfer_id: string;
  account_id: string;
  /** All events of its stream, oldest first. */
  events: RemovedEvent[];
}

/** Says which transfers leave the log. They leave it after this event, never before. */
export interface RetentionRecorded {
  /** All of them ended before this time. */
  ended_before: string;
  /** The file that has all of their events. */
  export: { name: string; sha256: string };
  /** A signed checkpoint over all of their events. */
  checkpoint: { size: number; root_hash: string };
  transfers: RemovedTransfer[];
}

/** Says that all transfers have left the log that earlier events of the stream name. */
export interface RetentionCompleted {
  completed_at: string;
}

export type RetentionEvent =
  | Event<'log.retention_recorded', RetentionRecorded>
  | Event<'log.retention_completed', RetentionCompleted>;

export type RetentionState = { status: 'none' | 'recorded' | 'completed' };

/** The record of what left the log: one stream in each log. */
export const retentionFold: Fold<RetentionState> = {
  initialState: () => ({ status: 'none' }),

  evolve(state, event) {
    if (isRetentionRecorded(event)) return isCovered(event.data) ? { status: 'recorded' } : state;
    return isRetentionEvent(event) && state.status === 'recorded' ? { status: 'completed' } : state;
  },
};

/** Returns true if the checkpoint that a record names signs every event that it names. */
function isCovered({ checkpoint, transfers }: RetentionRecorded): boolean {
  return transfers.every(({ events }) => events.every(({ index }) => index < checkpoint.size));
}

const isRetentionEvent = eventGuard<RetentionEvent>({
  'log.retention_recorded': true,
  'log.retention_completed': true,
});

/** Returns false for a record whose data was changed so that it names nothing. */
export function isRetentionRecorded<E extends Event>(
  event: E,
): event is E & Event<'log.retention_recorded', RetentionRecorded> {
  if (event.type !== 'log.retention_recorded' || !isRetentionEvent(event)) return false;
  const { transfers, checkpoint } = event.data as Changed<RetentionRecorded>;
  return Array.isArray(transfers) && transfers.every(isNamed) && Boolean(checkpoint);
}

/** Data that may have been changed: any field may be missing or of another type. */
type Changed<T> = { [Name in keyof T]?: unknown };

function isNamed(transfer: Changed<RemovedTransfer> | null): boolean {
  const { transfer_id, events } = transfer ?? {};
  return typeof transfer_id === 'string' && Array.isArray(events) && events.every(isLeaf);
}

function isLeaf(event: Changed<RemovedEvent> | null): boolean {
  const { id, index, position, hash } = event ?? {};
  return (
    typeof id === 'string' &&
    Number.isSafeInteger(index) &&
    /^\d{1,19}$/.test(String(position)) &&
    /^[0-9a-f]{64}$/.test(String(hash))
  );
}

/** Returns the records of retention among events. */
export function retentionRecords(
  events: StoredEvent[],
): (StoredEvent & Event<'log.retention_recorded', RetentionRecorded>)[] {
  return events.filter(({ stream }) => stream === RETENTION).filter(isRetentionRecorded);
}

/** Returns the streams that a record names. */
export function streamsOf({ transfers }: RetentionRecorded): string[] {
  return transfers.map(({ transfer_id }) => streamName('transfer', transfer_id));
}

/** Creates the error for a transfer that left the log. `name` is that of the export. */
export function leftLog(recordedAt: string, name: string): DomainError {
  return new DomainError(
    'not_found',
    `This transfer left the log on ${recordedAt.slice(0, 10)}. The export ${name} has its events`,
  );
}

/** An event that left the log: its leaf, its name and where it stood. */
export interface RemovedLeaf {
  index: number;
  hash: Hash;
  stream: string;
  revision: number;
  id: string;
  position: bigint;
}

/** Returns the leaves that a record names, in the order of the tree. */
export function removedLeavesOf({ transfers }: RetentionRecorded): RemovedLeaf[] {
  return transfers
    .flatMap(({ transfer_id, events }) =>
      events.map(({ id, index, position, hash }, revision) => ({
        index,
        hash: Buffer.from(hash, 'hex'),
        stream: streamName('transfer', transfer_id),
        revision,
        id,
        position: BigInt(position),
      })),
    )
    .sort((a, b) => a.index - b.index);
}
