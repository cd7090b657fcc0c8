import { once } from 'node:events';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import type { FakeLog, LogRecord } from './log.ts';
import { caughtUp, checkpoint, confirmation, eventAnswer, streamName, streamNotFound } from './messages.ts';

export type ReadCall = ServerWritableStream<streams.ReadReq, streams.ReadResp>;

const SEARCH_WINDOW = 32;

export function fail(call: { emit(event: 'error', error: unknown): unknown }, code: status, details: string): void {
  call.emit('error', Object.assign(new Error(details), { code, details }));
}

/** Answers a read of a stream or of the whole log, and ends the call. */
export async function serveRead(log: FakeLog, call: ReadCall, signal: AbortSignal): Promise<void> {
  const options = call.request.getOptions() as streams.ReadReq.Options;
  const source = options.getStream();
  const name = streamName(source?.getStreamIdentifier());
  const records = source ? log.stream(name) : log.records;
  if (records === undefined) {
    await write(call, streamNotFound(name), signal);
    call.end();
    return;
  }
  const backwards = options.getReadDirection() === 1;
  const from = source?.hasRevision() ? BigInt(source.getRevision()) : 0n;
  const wanted = records.filter((record) => record.revision >= from);
  const found = (backwards ? wanted.toReversed() : wanted).slice(0, Number(options.getCount()));
  for (const record of found) if (!signal.aborted) await write(call, eventAnswer(record), signal);
  call.end();
}

export interface SubscriptionSettings {
  /** Records between two checkpoints; as the client asks (a multiple of 32) where it is left out. */
  checkpointEvery?: number | undefined;
  onEvent(): void;
}

/** Serves a subscription to the whole log until the signal aborts. */
export async function serveSubscription(log: FakeLog, call: ReadCall, signal: AbortSignal, settings: SubscriptionSettings): Promise<void> {
  const options = call.request.getOptions() as streams.ReadReq.Options;
  const filter = options.getFilter();
  const prefixes = filter?.getStreamIdentifier()?.getPrefixList() ?? [''];
  const every = settings.checkpointEvery ?? SEARCH_WINDOW * (filter?.getCheckpointintervalmultiplier() ?? 1);
  const start = options.getAll()?.getPosition();
  const from = start ? BigInt(start.getCommitPosition()) : -1n;
  if (from > 0n && isMidRecord(log.records, from))
    return fail(call, status.INVALID_ARGUMENT, 'Invalid position: not the start of a record');
  let next = log.records.findIndex((record) => record.position > from);
  if (next < 0) next = log.records.length;
  let live = false;
  await write(call, confirmation(), signal);
  while (!signal.aborted) {
    for (; next < log.records.length && !signal.aborted; next += 1) {
      const record = log.records[next] as LogRecord;
      if (record.position <= from) continue;
      if (prefixes.some((prefix) => record.stream.startsWith(prefix))) {
        settings.onEvent();
        // As the real one: a subscriber that does not keep up goes back to catching up, without a word.
        if (!(await write(call, eventAnswer(record), signal))) live = false;
      }
      if ((next + 1) % every === 0) await write(call, checkpoint(record.position), signal);
    }
    if (!live) await write(call, caughtUp(), signal);
    live = true;
    if (next === log.records.length) await log.changed(signal);
  }
}

function isMidRecord(records: LogRecord[], position: bigint): boolean {
  const last = records.at(-1);
  return last !== undefined && position <= last.position && !records.some((record) => record.position === position);
}

/** False where the reader did not take it at once; returns when it did. */
async function write(call: ReadCall, message: streams.ReadResp, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted || call.write(message)) return true;
  await once(call, 'drain', { signal }).catch(() => undefined);
  return false;
}
