import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Server } from 'node:net';
import { problem } from '../contract/problems.ts';
import { newId } from '../domain/ids.ts';
import { uncountedHeaders } from './admission/rate-limit.ts';
import { commonHeaders } from './answers/common-headers.ts';
import type { Readiness } from './health.ts';
import { PROBLEM_TYPE, UNAVAILABLE_RETRY_SECONDS } from './problems.ts';
import { discardBody } from './requests/body.ts';
import { isApiPath, routedPathOf } from './requests/path.ts';

export interface ServerWhileStarting {
  /**
   * Makes the next `listen` of a server take over the listening socket: a new socket would reset
   * the connections that wait in the backlog of this one. Connections that are open stay here. Each
   * gets an answer to its next request, which closes it.
   */
  handOver(next: Server): void;
  /** Ends the connections that are still open here, and the listening socket. */
  close(): Promise<void>;
}

export interface AnswersWhileStarting {
  host: string;
  port: number;
  publicUrl: string | null;
  /** Requests per minute and key. */
  rateLimit: number;
}

/**
 * Answers for the API while the process waits for its dependencies. It reports live and not ready,
 * and answers every other request with `unavailable`.
 */
export async function serveWhileStarting(
  { host, port, publicUrl, rateLimit }: AnswersWhileStarting,
  tls: { cert: Buffer; key: Buffer } | undefined,
  checks: () => Readiness['checks'],
): Promise<ServerWhileStarting> {
  const answer: RequestListener = async (request, response) => {
    await discardBody(request);
    const requestId = newId('req');
    const ofApi = isApiPath(routedPathOf(request.url ?? ''));
    const path = request.url?.split('?')[0];
    const health = path === '/health/live' || path === '/health/ready';
    response.statusCode = path === '/health/live' ? 200 : 503;
    const headers = {
      ...commonHeaders(requestId, publicUrl, ofApi),
      ...((ofApi || path === '/metrics') && uncountedHeaders(rateLimit)),
    };
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    response.setHeader('connection', 'close');
    response.setHeader('cache-control', 'no-store');
    response.setHeader('content-type', health ? 'application/json; charset=utf-8' : PROBLEM_TYPE);
    if (!health) response.setHeader('retry-after', UNAVAILABLE_RETRY_SECONDS);
    if (path === '/health/live') response.end(JSON.stringify({ status: 'live' }));
    else if (health) response.end(JSON.stringify({ status: 'not_ready', checks: checks() }));
    else {
      const detail = 'The service is starting: retry in a few seconds';
      response.end(JSON.stringify(problem('unavailable', detail, requestId)));
    }
  };
  const server = tls ? createTlsServer(tls, answer) : createServer(answer);
  server.listen({ host, port });
  await once(server, 'listening');
  return {
    handOver(next) {
      const listen = next.listen.bind(next);
      Object.assign(next, { listen: () => listen(server) });
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
