import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Sql } from '../adapters/postgres/connect.ts';
import { clientOf } from './auth/authenticate.ts';
import { stillValid } from './auth/still-valid.ts';

/**
 * The stream sends something at least this often, so that proxies keep the connection. It also
 * checks the client's access about this often.
 */
const HEARTBEAT_MS = 15_000;

export interface EventStreamDeps {
  sql: Sql;
  /** Aborts when the service stops. */
  closing: AbortSignal;
  /** 15 s by default. */
  heartbeatMs?: number | undefined;
}

/** Null is a heartbeat: nothing happened for a while. */
export type ServerEvent = { event: string; data: unknown } | null;

/**
 * Answers with server-sent events until the source ends, the client disconnects, the service
 * closes, or the key or session becomes invalid. An error before the first event is answered as a
 * problem.
 */
export async function sendEvents(
  { sql, closing, heartbeatMs = HEARTBEAT_MS }: EventStreamDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  source: (signal: AbortSignal, quietMs: number) => AsyncGenerator<ServerEvent>,
): Promise<FastifyReply> {
  const left = new AbortController();
  reply.raw.once('close', () => left.abort());
  const events = source(AbortSignal.any([left.signal, closing]), heartbeatMs);
  const first = await events.next();
  if (first.done) throw new Error('A stream of events has no first event');
  const hasAccess = () => stillValid(sql, clientOf(request));
  const body = Readable.from(frames(first.value, events, hasAccess, heartbeatMs), {
    objectMode: false,
  });
  return reply
    .header('x-accel-buffering', 'no')
    .type('text/event-stream; charset=utf-8')
    .send(body);
}

async function* frames(
  first: ServerEvent,
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
    yield frame(event);
  }
}

function frame(event: ServerEvent): string {
  return event === null
    ? ': nothing new\n\n'
    : `event: ${event.event}\ndata: ${JSON.stringify(event.data)}\n\n`;
}
