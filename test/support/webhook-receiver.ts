import { once } from 'node:events';
import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { ServerCertificate } from './certificates.ts';

/** What it does with a request: answers with a status, or behaves badly. */
export type Behaviour =
  | number
  /** Never answers. */
  | 'hang'
  /** Breaks the connection off without an answer. */
  | 'reset'
  /** Sends the status line, then its headers and body, a byte at a time, and never comes to an end. */
  | 'slow_headers'
  /** Answers 200 at once; its body comes a byte at a time and never ends. */
  | 'slow_body'
  /** Answers 200 with a body that never ends, as fast as it goes. */
  | 'huge_body';

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** As it came. */
  body: string;
  /** The event id of the payload; empty where it is not JSON. */
  eventId: string;
}

export interface WebhookReceiver {
  url: string;
  port: number;
  /** Complete requests, in the order of their arrival. */
  received: ReceivedRequest[];
  /** Connections taken so far. */
  connections(): number;
  /** Bytes of answers that were taken from it. */
  sent(): number;
  /** From now on. */
  behave(behaviour: Behaviour | ((request: ReceivedRequest) => Behaviour)): void;
  close(): Promise<void>;
}

export interface ReceiverOptions {
  behaviour?: Behaviour | ((request: ReceivedRequest) => Behaviour);
  /** Given, it speaks https. */
  certificate?: ServerCertificate;
  /** A port that was had before; any free one by default. */
  port?: number;
}

/** Starts an HTTP(S) server on 127.0.0.1 that receives webhooks and keeps what it was sent. */
export async function startWebhookReceiver(options: ReceiverOptions = {}): Promise<WebhookReceiver> {
  const { certificate, port = 0 } = options;
  let behaviour = options.behaviour ?? 200;
  let connections = 0;
  let sent = 0;
  const received: ReceivedRequest[] = [];
  const timers = new Set<NodeJS.Timeout>();

  const server = certificate ? https.createServer(certificate, handle) : http.createServer(handle);
  server.on('connection', (socket) => {
    connections++;
    // Whoever hangs up on it is right to do so.
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

  function answer(chosen: Behaviour, { socket }: IncomingMessage, response: ServerResponse): void {
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
        response.writeHead(chosen, chosen >= 300 && chosen < 400 ? { location: 'https://elsewhere.example/' } : {});
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
