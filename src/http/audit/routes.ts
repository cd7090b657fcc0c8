import { Readable } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { grants } from '../../domain/key.ts';
import { clientOf } from '../auth.ts';
import { responses } from '../documentation.ts';

const query = z.strictObject({
  from: z
    .string()
    .regex(/^\d{1,19}$/, 'must be a position: a decimal number')
    .transform(BigInt)
    .refine((position) => position < 2n ** 63n, 'must be a position of the log')
    .optional()
    .describe('Only what follows this position: give the last one that you have to go on from there.'),
});

const auditEvent = z
  .strictObject({
    position: z.string().describe('Place in the whole log, as a decimal string.'),
    stream: z.string(),
    revision: z.int(),
    id: z.string(),
    type: z.string(),
    schema_version: z.int(),
    data: z.record(z.string(), z.unknown()),
    metadata: z
      .record(z.string(), z.unknown())
      .describe('`prev_hash` chains the events of a stream: SHA-256 over the RFC 8785 form of the one before.'),
  })
  .meta({ id: 'AuditEvent' });

export function auditRoutes({ store }: { store: EventStore }): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/events',
      config: { scope: 'audit:read' },
      schema: {
        operationId: 'exportEvents',
        summary: 'Export the log',
        description:
          'One event a line, in the order of the log, up to its end as it is now: those of your account, or with an `admin` key of the whole installation.',
        tags: ['Audit'],
        querystring: query,
        response: responses({ 200: ['The events, one JSON document a line', auditEvent, 'application/x-ndjson'] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request, reply) {
        const { accountId, scopes } = clientOf(request);
        const everything = grants(scopes, 'admin');
        const until = await store.head();
        const closed = new AbortController();
        reply.raw.once('close', () => closed.abort());
        const events = readUntil(store, request.query.from ?? null, until, closed.signal);
        const visible = Readable.from(lines(events, (event) => everything || event.metadata.account_id === accountId));
        return reply.type('application/x-ndjson; charset=utf-8').send(visible);
      },
    });
  };
}

async function* readUntil(store: EventStore, from: bigint | null, until: bigint | null, closed: AbortSignal): AsyncGenerator<StoredEvent> {
  if (until === null || (from !== null && from >= until)) return;
  const done = new AbortController();
  try {
    for await (const { events, position, caughtUp } of store.subscribe({ from, signal: AbortSignal.any([closed, done.signal]) })) {
      for (const event of events) if (event.position <= until) yield event;
      if (caughtUp || position >= until) return;
    }
  } finally {
    done.abort();
  }
}

async function* lines(events: AsyncIterable<StoredEvent>, isVisible: (event: StoredEvent) => boolean): AsyncGenerator<string> {
  for await (const event of events) {
    if (!isVisible(event)) continue;
    const { position, stream, revision, id, type, schema_version, data, metadata } = event;
    yield `${JSON.stringify({ position: String(position), stream, revision, id, type, schema_version, data, metadata })}\n`;
  }
}
