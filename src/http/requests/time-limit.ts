/*
 * One time limit for all that a request asks of Postgres and the event store.
 *
 * Each call of a store has a time limit of its own, and a request makes several. The time in which
 * a body arrives does not count, nor that of an answer that has begun. Fastify's `handlerTimeout`
 * counts both.
 *
 * After the limit, the work of the request goes on without its client until its next append, which
 * fails. So a request that got 503 begins no append. Its statements of Postgres go on.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import {
  type AppendLimit,
  type EventStore,
  EventStoreUnavailable,
} from '../../adapters/event-store/port.ts';
import { GIVE_UP_ON_STORES_MS } from '../../adapters/unavailable.ts';
import { changed } from '../../commands/remembered-streams.ts';
import { asksForCsv } from './accept.ts';

/** A server of others, such as a partner's, has a time limit of 30 s. */
const OTHERS_MS = 30_000;

/**
 * What a handler may take beside the limit: milliseconds, or the same time again after each of its
 * appends.
 */
type Extra = ((request: FastifyRequest) => number) | 'after each append';

const ofOthers: Extra = () => OTHERS_MS;
/** An export reads the first matches before its answer begins. Each statement has its own limit. */
const ofExport: Extra = (request) => (asksForCsv(request) ? Number.POSITIVE_INFINITY : 0);

/** The routes that may take longer. All others ask only the stores, and for a few things. */
export const LONGER: Record<string, Extra> = {
  'GET /v1/transfers': ofExport,
  'GET /v1/audit': ofExport,
  'GET /v1/transfers/:transfer_id/receipt': (request) =>
    (request.query as { wait: number }).wait * 1_000,
  'POST /v1/transfers/bulk': 'after each append',
  'POST /v1/batches': 'after each append',
  'DELETE /v1/batches/:batch_id': 'after each append',
  'POST /v1/batches/:batch_id/retry': 'after each append',
  'POST /v1/flows/:flow_id/runs': ofOthers,
  'GET /v1/endpoints/:endpoint_id/files': ofOthers,
  'POST /v1/endpoints/:endpoint_id/accept-host-key': ofOthers,
  'GET /v1/session/oidc': ofOthers,
  'GET /v1/session/oidc/callback': ofOthers,
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Milliseconds that it may still wait for the stores. */
    leftMs: number;
    /** True once its handler has begun. */
    isHandled: boolean;
  }
}

/** The request took longer than it may. */
export class TooLate extends EventStoreUnavailable {
  override readonly name = 'TooLate';

  constructor() {
    super('Postgres or the event store was too slow or silent: /health/ready names the one');
  }
}

/** The handler that runs. */
interface Running {
  /** By `performance.now()`. */
  endsAt: number;
  /** Starts its time again after an append. Null if it has one time limit, and when that is over. */
  renew: (() => void) | null;
}

const running = new AsyncLocalStorage<Running>();

/** Limits the time of every handler of the server, for its calls of the stores. */
export function limitHandlers(app: FastifyInstance, withinMs = GIVE_UP_ON_STORES_MS): void {
  app.decorateRequest('leftMs', withinMs);
  app.decorateRequest('isHandled', false);
  app.addHook('onRoute', (route) => {
    const extra = LONGER[nameOf(route)];
    const { handler } = route;
    route.handler = function limited(request, reply) {
      request.isHandled = true;
      if (typeof extra === 'function') request.leftMs += extra(request);
      const handle = async () => handler.call(this, request, reply);
      return withinLimit(request, reply, handle, extra === 'after each append');
    };
  });
}

/** Returns the route as `LONGER` names it. */
export function nameOf({ method, url }: Pick<RouteOptions, 'method' | 'url'>): string {
  return `${method === 'HEAD' ? 'GET' : method} ${url}`;
}

/** Runs a part of the work of a request. Throws TooLate when the time of the request is over. */
export async function withinLimit<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<T>,
  isRenewed = false,
): Promise<T> {
  const { leftMs } = request;
  if (leftMs === Number.POSITIVE_INFINITY) return work();
  const { promise: over, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    now.renew = null;
    if (!hasBegun(reply)) reject(new TooLate());
  }, leftMs);
  const now: Running = { endsAt: performance.now() + leftMs, renew: null };
  if (isRenewed)
    now.renew = () => {
      now.endsAt = performance.now() + leftMs;
      timer.refresh();
    };
  try {
    return await Promise.race([running.run(now, work), over]);
  } finally {
    clearTimeout(timer);
    request.leftMs = Math.max(0, now.endsAt - performance.now());
  }
}

/** Returns true if the answer has begun. Nothing else can be answered then. */
function hasBegun({ raw, sent }: FastifyReply): boolean {
  return sent || raw.headersSent;
}

/**
 * Drops what a handler sends when its request was answered with TooLate. Fastify would log it as
 * an error.
 */
export function dropLateAnswer(error: unknown, reply: FastifyReply): void {
  if (error instanceof TooLate) reply.send = () => reply;
}

/**
 * Returns true if an error of a store leaves open whether the request took effect. A statement or
 * append under way may still commit.
 */
export function mayTakeEffect({ method, isHandled }: FastifyRequest): boolean {
  return isHandled && method !== 'GET' && method !== 'HEAD';
}

/** Returns the store for requests: an append fails when the time of its request is over. */
export function limitAppends(store: EventStore): EventStore {
  const { appendWith } = store;
  return changed(store, {
    append: (stream, expected, events) =>
      limited((limit) => store.append(stream, expected, events, limit)),
    ...(appendWith && {
      appendWith: (stream, expected, events, options) =>
        limited((limit) => appendWith(stream, expected, events, { ...options, ...limit })),
    }),
  });
}

async function limited<T>(append: (limit: AppendLimit) => Promise<T>): Promise<T> {
  const request = running.getStore();
  if (request === undefined) return append({});
  const withinMs = Math.floor(request.endsAt - performance.now());
  if (withinMs <= 0) throw new TooLate();
  const result = await append({ withinMs });
  request.renew?.();
  return result;
}
