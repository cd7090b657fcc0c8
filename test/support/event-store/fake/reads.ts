import { once } from 'node:events';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import { Metadata, type ServerWritableStream, status } from '@grpc/grpc-js';
import type { FakeLog, LogRecord } from './log.ts';
import {
  caughtUp,
  checkpoint,
  confirmation,
  eventAnswer,
  streamName,
  streamNotFound,
} from './messages.ts';

export type ReadCall = ServerWritableStream<streams.ReadReq, streams.ReadResp>;

const SEARCH_WINDOW = 32;

/** Returns true if a stream has a tombstone. */
export function isDeleted(records: LogRecord[]): boolean {
  return records.at(-1)?.type === '$streamDeleted';
}

/** What the server adds to the error of a call for a stream that has a tombstone. */
export function deletion(stream: string): Metadata {
  const metadata = new Metadata();
  metadata.set('exception', 'stream-deleted');
  metadata.set('stream-name', stream);
  return metadata;
}

export function fail(
  call: { emit(event: 'error', error: unknown): unknown },
  code: status,
  details: string,
  metadata = new Metadata(),
): void {
  call.emit('error', Object.assign(new Error(details), { code, details, metadata }));
}

/** Rejects a call that requires the leader, and names the leader. */
export function failNotLeader(
  call: { emit(event: 'error', error: unknown): unknown },
  leaderPort: number,
): void {
  const metadata = new Metadata();
  metadata.set('exception', 'not-leader');
  metadata.set('leader-endpoint-host', '127.0.0.1');
  metadata.set('leader-endpoint-port', String(leaderPort));
  const details = 'Leader info available';
  call.emit(
    'error',
    Object.assign(new Error(details), { code: status.NOT_FOUND, details, metadata }),
  );
}

/** The log of a follower that has advanced to a position. */
export function laggingView(log: FakeLog, upTo: bigint): Pick<FakeLog, 'records' | 'stream'> {
  const seen = (records: LogRecord[]) => records.filter(({ position }) => position <= upTo);
  return {
    records: seen(log.records),
    stream(name) {
      const records = seen(log.stream(name) ?? []);
      return records.length > 0 ? records : undefined;
    },
  };
}

/** Answers a read of a stream or of the whole log, and ends the call. */
export async function serveRead(
  log: Pick<FakeLog, 'records' | 'stream'>,
  call: ReadCall,
  signal: AbortSignal,
): Promise<void> {
  const options = call.request.getOptions() as streams.ReadReq.Options;
  const source = options.getStream();
  const name = streamName(source?.getStreamIdentifier());
  const records = source ? log.stream(name) : log.records;
  if (records === undefined) {
    await write(call, streamNotFound(name), signal);
    call.end();
    return;
  }
  if (source && isDeleted(records)) {
    fail(call, status.FAILED_PRECONDITION, 'The stream was deleted', deletion(name));
    return;
  }
  const backwards = options.getReadDirection() === 1;
  const from = source?.hasRevision() ? BigInt(source.getRevision()) : 0n;
  const wanted = records.filter((record) => record.revision >= from);
  const found = (backwards ? wanted.toReversed() : wanted).slice(0, Number(options.getCount()));
  for (const record of found) if (!signal.aborted) await write(call, eventAnswer(record), signal);
  call.end();
}

/** A position as the server sends it. */
export interface Place {
  commit: bigint;
  prepare: bigint;
}

export interface SubscriptionSettings {
  /**
   * Records between two checkpoints; by default, the number that the client requests (a multiple of
   * 32).
   */
  checkpointEvery?: number | undefined;
  /** A checkpoint that comes first, whatever the log holds. */
  firstCheckpoint?: Place | undefined;
  onEvent(): void;
}

/** Returns true if a subscription starts at or after a position. */
export function isAfter({ request }: ReadCall, position: bigint): boolean {
  const start = request.getOptions()?.getAll()?.getPosition();
  return start !== undefined && BigInt(start.getCommitPosition()) >= position;
}

/** Serves a subscription to the whole log until the signal aborts. */
export async function serveSubscription(
  log: Pick<FakeLog, 'records' | 'changed'>,
  call: ReadCall,
  signal: AbortSignal,
  settings: SubscriptionSettings,
): Promise<void> {
  const options = call.request.getOptions() as streams.ReadReq.Options;
  const filter = options.getFilter();
  const prefixes = filter?.getStreamIdentifier()?.getPrefixList() ?? [''];
  const every =
    settings.checkpointEvery ?? SEARCH_WINDOW * (filter?.getCheckpointintervalmultiplier() ?? 1);
  const start = options.getAll()?.getPosition();
  const from = start ? BigInt(start.getCommitPosition()) : -1n;
  const place = (record: LogRecord) => ({ commit: record.position, prepare: record.position });
  const matches = (record: LogRecord) =>
    prefixes.some((prefix) => record.stream.startsWith(prefix));
  if (from > 0n && isMidRecord(log.records, from))
    return fail(call, status.INVALID_ARGUMENT, 'Invalid position: not the start of a record');
  let next = log.records.findIndex((record) => record.position > from);
  if (next < 0) next = log.records.length;
  let live = false;
  await write(call, confirmation(), signal);
  if (settings.firstCheckpoint) await write(call, checkpoint(settings.firstCheckpoint), signal);
  while (!signal.aborted) {
    for (; next < log.records.length && !signal.aborted; next += 1) {
      const record = log.records[next] as LogRecord;
      if (record.position <= from) continue;
      if (matches(record)) {
        settings.onEvent();
        // Like the real server: a slow subscriber silently falls back to catching up.
        if (!(await write(call, eventAnswer(record), signal))) live = false;
      }
      if ((next + 1) % every !== 0) continue;
      // While it catches up, the real server sends the last sent event, or the start of the next
      // window after an empty one.
      const first = log.records[next + 1 - every] as LogRecord;
      const last = log.records.slice(next + 1 - every, next + 1).findLast(matches);
      const reached = last ? place(last) : { commit: first.position, prepare: 0n };
      await write(call, checkpoint(live ? place(record) : reached), signal);
    }
    if (!live) await write(call, caughtUp(), signal);
    live = true;
    if (next === log.records.length) await log.changed(signal);
  }
}

function isMidRecord(records: LogRecord[], position: bigint): boolean {
  const last = records.at(-1);
  return (
    last !== undefined &&
    position <= last.position &&
    !records.some((record) => record.position === position)
  );
}

/** False if the reader did not accept it at once; returns when it did. */
async function write(
  call: ReadCall,
  message: streams.ReadResp,
  signal: AbortSignal,
): Promise<boolean> {
  if (signal.aborted || call.write(message)) return true;
  await once(call, 'drain', { signal }).catch(() => undefined);
  return false;
}
