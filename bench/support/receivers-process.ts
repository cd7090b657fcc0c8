import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

// Receivers of webhooks, in a process of their own: they only read and answer. Its argument is
// their number. It sends their URLs first. Asked for arrivals, it sends those since the last
// question.

export interface Arrival {
  receiver: number;
  eventId: string;
  /** Milliseconds since 1970, with fractions. */
  at: number;
}

export type Question =
  | { type: 'arrivals' }
  | { type: 'count' }
  | { type: 'hang'; receiver: number | null }
  | { type: 'fail'; oneIn: number; answerMs: number };

const clock = () => performance.timeOrigin + performance.now();
let arrivals: Arrival[] = [];
let hanging: number | null = null;
let held: ServerResponse[] = [];
let failing: { oneIn: number; answerMs: number } | null = null;
let requests = 0;

const urls = Array.from({ length: Number(process.argv[2]) }, async (_, receiver) => {
  const server = createServer((request, response) => {
    const eventId = String(request.headers['webhook-id'] ?? '');
    request.resume().once('end', () => {
      arrivals.push({ receiver, eventId, at: clock() });
      if (failing !== null && ++requests % failing.oneIn === 0) response.statusCode = 500;
      if (hanging === receiver) held.push(response);
      else if (failing !== null) setTimeout(() => response.end(), failing.answerMs);
      else response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});

process.on('message', (question: Question) => {
  if (question.type === 'fail') failing = question;
  if (question.type === 'hang') {
    hanging = question.receiver;
    // Open requests must not reach into the next measurement.
    for (const response of held) response.end();
    held = [];
  }
  process.send?.(question.type === 'arrivals' ? arrivals : arrivals.length);
  if (question.type === 'arrivals') arrivals = [];
});
process.on('disconnect', () => process.exit());
process.send?.(await Promise.all(urls));
