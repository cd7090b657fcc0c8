import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

// Receivers of webhooks that do nothing but read and answer 200, in a process of their own. Its argument is their
// number; it sends their URLs, and whenever it is asked what arrived since it was asked last.

export interface Arrival {
  receiver: number;
  eventId: string;
  /** Milliseconds since 1970, with fractions. */
  at: number;
}

export type Question = { type: 'arrivals' } | { type: 'count' } | { type: 'hang'; receiver: number | null };

const clock = () => performance.timeOrigin + performance.now();
let arrivals: Arrival[] = [];
let hanging: number | null = null;
let held: ServerResponse[] = [];

const urls = Array.from({ length: Number(process.argv[2]) }, async (_, receiver) => {
  const server = createServer((request, response) => {
    const eventId = String(request.headers['webhook-id'] ?? '');
    request.resume().once('end', () => {
      arrivals.push({ receiver, eventId, at: clock() });
      if (hanging === receiver) held.push(response);
      else response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});

process.on('message', (question: Question) => {
  if (question.type === 'hang') {
    hanging = question.receiver;
    // Nothing of it is left for what is measured next.
    for (const response of held) response.end();
    held = [];
  }
  process.send?.(question.type === 'arrivals' ? arrivals : arrivals.length);
  if (question.type === 'arrivals') arrivals = [];
});
process.on('disconnect', () => process.exit());
process.send?.(await Promise.all(urls));
