import { Readable } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { EventBatch, EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import * as audit from '../../contract/audit.ts';
import { auditEvent, exportQuery, toAuditEvent } from '../../contract/events.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { grants } from '../../domain/scope.ts';
import { eachAuditEvent, listAuditEvents } from '../../projections/audit/queries.ts';
import { readLogFrom } from '../../projections/read-log.ts';
import type { AccessRecorder } from '../access-log/recorder.ts';
import { prefersCsv, sendCsv } from '../answers/csv.ts';
import { disconnectSignal } from '../answers/disconnect.ts';
import type { LimitOpen } from '../answers/open-answers.ts';
import { clientOf } from '../auth/client.ts';
import type { WhileAllowed } from '../auth/while-allowed.ts';
import { responses } from '../openapi/documentation.ts';

export interface AuditDeps {
  sql: Sql;
  store: EventStore;
  whileAllowed: WhileAllowed;
  limitExports: LimitOpen;
  access: AccessRecorder;
}

export function auditRoutes({
  sql,
  store,
  whileAllowed,
  limitExports,
  access,
}: AuditDeps): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/audit',
      config: { scope: 'audit:all' },
      schema: {
        operationId: 'listAuditEvents',
        summary: 'List what people and keys did',
        description:
          'Changes of endpoints, keys and webhooks, and what clients did to transfers after their ' +
          'creation, in the whole installation. A new event appears a moment later. With ' +
          '`Accept: text/csv`, the answer has all matches as CSV, and `limit` and `offset` have ' +
          'no effect.',
        tags: ['Audit'],
        querystring: audit.auditQuery,
        response: responses({ 200: ['A page of events', audit.auditList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request, reply): Promise<audit.AuditList> {
        const { limit, offset, ...filters } = request.query;
        const filter = audit.toAuditFilter(filters);
        if (prefersCsv(request, reply)) {
          limitExports(request, reply);
          await access.exported(request, 'audit_log', null);
          const pieces = audit.auditToCsv(eachAuditEvent(sql, filter));
          return sendCsv(request, reply, 'audit.csv', whileAllowed(request, pieces));
        }
        const page = { limit, offset, countTo: COUNTED_TO };
        const { events, total, hasMore } = await listAuditEvents(sql, filter, page);
        return {
          data: events.map(audit.toAuditItem),
          pagination: { total, limit, offset, has_more: hasMore },
        };
      },
    });

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
        limitExports(request, reply);
        const { accountId, scopes } = clientOf(request);
        const everything = grants(scopes, 'audit:all');
        const record = await access.exported(request, 'log', everything ? null : accountId);
        // A former leader of an EventStoreDB may answer with an older head. The record is behind
        // everything that the log had when the request came.
        const until = record?.position ?? (await store.head());
        const { from = null, stream } = request.query;
        const batches = readLogFrom(store, {
          ...{ from, until, stream, signal: disconnectSignal(reply) },
          holds: record?.id,
        });
        const visible = lines(
          batches,
          (event) =>
            event.id !== record?.id && (everything || event.metadata.account_id === accountId),
        );
        return reply
          .type('application/x-ndjson; charset=utf-8')
          .send(Readable.from(whileAllowed(request, visible)));
      },
    });
  };
}

/**
 * Yields a line for each visible event, and an empty text for a batch without any: the first one
 * sends the head of the answer, and the access is checked with each. The events of a small account
 * may be minutes apart.
 */
async function* lines(
  batches: AsyncIterable<EventBatch>,
  isVisible: (event: StoredEvent) => boolean,
): AsyncGenerator<string> {
  for await (const { events } of batches) {
    const visible = events.filter(isVisible);
    if (visible.length === 0) yield '';
    for (const event of visible) yield `${JSON.stringify(toAuditEvent(event))}\n`;
  }
}
