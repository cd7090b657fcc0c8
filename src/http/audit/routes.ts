import { Readable } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { auditEvent, exportQuery, toAuditEvent } from '../../contract/events.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { grants } from '../../domain/key.ts';
import { clientOf } from '../auth.ts';
import { responses } from '../documentation.ts';

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
          'One event a line, in log order, up to the current end of the log. It has the ' +
          'events of your account; with the scope `audit:all`, those of the whole installation.',
        tags: ['Audit'],
        querystring: exportQuery,
        response: responses(
          { 200: ['The events, one JSON document a line', auditEvent, 'application/x-ndjson'] },
          ['invalid_parameter', 'unknown_field'],
        ),
      },
      async handler(request, reply) {
        const { accountId, scopes } = clientOf(request);
        const everything = grants(scopes, 'audit:all');
        const until = await store.head();
        const closed = new AbortController();
        reply.raw.once('close', () => closed.abort());
        const events = readUntil(store, request.query.from ?? null, until, closed.signal);
        const visible = Readable.from(
          lines(events, (event) => everything || event.metadata.account_id === accountId),
        );
        return reply.type('application/x-ndjson; charset=utf-8').send(visible);
      },
    });
  };
}

async function* readUntil(
  store: EventStore,
  from: bigint | null,
  until: bigint | null,
  closed: AbortSignal,
): AsyncGenerator<StoredEvent> {
  if (until === null || (from !== null && from >= until)) return;
  const done = new AbortController();
  try {
    for await (const { events, position, caughtUp } of store.subscribe({
      from,
      signal: AbortSignal.any([closed, done.signal]),
    })) {
      for (const event of events) if (event.position <= until) yield event;
      if (caughtUp || position >= until) return;
    }
  } finally {
    done.abort();
  }
}

async function* lines(
  events: AsyncIterable<StoredEvent>,
  isVisible: (event: StoredEvent) => boolean,
): AsyncGenerator<string> {
  for await (const event of events) {
    if (!isVisible(event)) continue;
    yield `${JSON.stringify(toAuditEvent(event))}\n`;
  }
}
