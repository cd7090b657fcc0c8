import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { EventStoreUnavailable } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { untilAnswered } from '../../processes/until-answered.ts';
import { clientOf } from '../auth/client.ts';
import { stillValid } from '../auth/still-valid.ts';
import { disconnectSignal } from './disconnect.ts';
import type { LimitOpen } from './open-answers.ts';

/**
 * The stream sends a comment this often, so that proxies keep the connection. It also checks the
 * client's access about this often.
 */
const HEARTBEAT_MS = 15_000;
/** Streams of one key or person in this process, at most. */
export const MAX_STREAMS = 500;

export interface EventStreamDeps {
  sql: Sql;
  limitStreams: LimitOpen;
  /** Aborts when the service stops. */
  closing: AbortSignal;
  /** 15 s by default. */
  heartbeatMs?: number | undefined;
}

/** Null if nothing happened for a while. The client's access is checked then too. */
export type ServerEvent = { event: string; data: unknown } | null;

/**
 * Answers with server-sent events until the source ends, the client disconnects, the service
 * closes, or the key or session becomes invalid. An error, or the end of the service, before the
 * first event is answered as a problem. Throws `rate_limited` if the client has too many streams.
 *
 * An outage of Postgres does not end the stream, only delays its events. A client would come back
 * during the outage and get 503, after which an `EventSource` never comes back.
 */
export async function sendEvents(
  deps: EventStreamDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  source: (signal: AbortSignal, quietMs: number) => AsyncGenerator<ServerEvent>,
): Promise<FastifyReply> {
  const { sql, limitStreams, closing, heartbeatMs = HEARTBEAT_MS } = deps;
  limitStreams(request, reply);
  // The client left during its admission. No `close` follows that would end the source.
  if (reply.raw.destroyed) return reply;
  const left = disconnectSignal(reply);
  const signal = AbortSignal.any([left, closing]);
  const events = source(signal, heartbeatMs);
  const first = (await events.next()).value;
  if (left.aborted) {
    // Nothing would end the source: the answer is not sent.
    await events.return(undefined);
    return reply;
  }
  if (!first) {
    if (closing.aborted) throw new EventStoreUnavailable('the service stops');
    throw new Error('A stream of events has no first event');
  }
  const hasAccess = () => untilAnswered(() => stillValid(sql, clientOf(request)), signal);
  const body = withHeartbeats(frames(first, events, hasAccess, heartbeatMs), heartbeatMs);
  return reply
    .header('x-accel-buffering', 'no')
    .type('text/event-stream; charset=utf-8')
    .send(body);
}

/** Returns the frames and a comment every `everyMs`, also while they wait for a silent Postgres. */
function withHeartbeats(frames: AsyncGenerator<string>, everyMs: number): Readable {
  const body = new PassThrough();
  const heartbeat = setInterval(() => body.writableEnded || body.write(': heartbeat\n\n'), everyMs);
  body.once('close', () => clearInterval(heartbeat));
  // An error breaks the body too.
  pipeline(frames, body).catch(() => undefined);
  return body;
}

async function* frames(
  first: NonNullable<ServerEvent>,
  events: AsyncGenerator<ServerEvent>,
  hasAccess: () => Promise<boolean>,
  everyMs: number,
): AsyncGenerator<string> {
  yield frame(first);
  let checkedAt = performance.now();
  for await (const event of events) {
    if (performance.now() - checkedAt >= everyMs / 2) {
      if (!(await hasAccess())) return;
      checkedAt = performance.now();
    }
    if (event !== null) yield frame(event);
  }
}

function frame({ event, data }: NonNullable<ServerEvent>): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
