import { once } from 'node:events';
import http, {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { ServerCertificate } from '../network/certificates.ts';

/** Its reaction to a request: an answer with a status, perhaps later, or bad behaviour. */
export type Behaviour =
  | number
  | { status: number; afterMs: number }
  /** Never answers. */
  | 'hang'
  /** Closes the connection without an answer. */
  | 'reset'
  /** Sends the status line, headers and body one byte at a time, and never ends. */
  | 'slow_headers'
  /** Answers 200 at once; the body arrives one byte at a time and never ends. */
  | 'slow_body'
  /** Answers 200 with an endless body, as fast as possible. */
  | 'huge_body';

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** As it arrived. */
  body: string;
  /** The event id of the payload; empty if it is not JSON. */
  eventId: string;
}

export interface WebhookReceiver {
  url: string;
  port: number;
  /** Complete requests, in the order of their arrival. */
  received: ReceivedRequest[];
  /** Accepted connections so far. */
  connections(): number;
  /** Bytes of its answers that clients read. */
  sent(): number;
  /** Applies from now on. */
  behave(behaviour: Behaviour | ((request: ReceivedRequest) => Behaviour)): void;
  close(): Promise<void>;
}

export interface ReceiverOptions {
  behaviour?: Behaviour | ((request: ReceivedRequest) => Behaviour);
  /** If given, it speaks https. */
  certificate?: ServerCertificate;
  /** A port that was in use before; any free port by default. */
  port?: number;
}

/** Starts an HTTP(S) server on 127.0.0.1 that receives webhooks and records them. */
export async function startWebhookReceiver(
  options: ReceiverOptions = {},
): Promise<WebhookReceiver> {
  const { certificate, port = 0 } = options;
  let behaviour = options.behaviour ?? 200;
  let connections = 0;
  let sent = 0;
  const received: ReceivedRequest[] = [];
  const timers = new Set<NodeJS.Timeout>();

  const server = certificate ? https.createServer(certificate, handle) : http.createServer(handle);
  server.on('connection', (socket) => {
    connections++;
    // Clients that close the connection are right to do so.
    socket.on('error', () => undefined).on('close', () => (sent += socket.bytesWritten));
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const { method = '', url = '', headers } = request;
    const one = { method, path: url, headers, body, eventId: idOf(body) };
    received.push(one);
    answer(typeof behaviour === 'function' ? behaviour(one) : behaviour, request, response);
  }

  function answer(chosen: Behaviour, request: IncomingMessage, response: ServerResponse): void {
    if (typeof chosen === 'object') {
      const timer = setTimeout(() => answer(chosen.status, request, response), chosen.afterMs);
      timers.add(timer);
      return;
    }
    const { socket } = request;
    switch (chosen) {
      case 'hang':
        return;
      case 'reset':
        socket.resetAndDestroy();
        return;
      case 'slow_headers':
        drip(socket, 'HTTP/1.1 200 OK\r\nX-Filler: ');
        return;
      case 'slow_body':
        response.writeHead(200).flushHeaders();
        drip(response, '');
        return;
      case 'huge_body':
        response.writeHead(200);
        pour(response);
        return;
      default:
        response.writeHead(
          chosen,
          chosen >= 300 && chosen < 400 ? { location: 'https://elsewhere.example/' } : {},
        );
        response.end(chosen === 204 ? undefined : `said ${chosen}`);
    }
  }

  function drip(to: NodeJS.WritableStream, start: string): void {
    to.write(start);
    const timer = setInterval(() => to.write('x'), 20);
    timers.add(timer);
    to.on('close', () => clearInterval(timer)).on('error', () => undefined);
  }

  function pour(response: ServerResponse): void {
    const chunk = Buffer.alloc(65_536, 'y');
    const more = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', more).on('error', () => undefined);
    more();
  }

  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    url: `${certificate ? 'https' : 'http'}://127.0.0.1:${address.port}/hook`,
    port: address.port,
    received,
    connections: () => connections,
    sent: () => sent,
    behave(next) {
      behaviour = next;
    },
    async close() {
      for (const timer of timers) clearInterval(timer);
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function idOf(body: string): string {
  try {
    return String(JSON.parse(body).id);
  } catch {
    return '';
  }
}
