import { z } from 'zod';
import type { StoredEvent } from '../domain/event.ts';
import { timestamp } from './instants.ts';

export const position = z
  .string()
  .describe('Position in the whole log, as a decimal string.')
  .meta({ examples: ['4711'] });

const historyItem = z
  .strictObject({
    id: z
      .string()
      .describe('Event ids of one transfer strictly increase: order by them.')
      .meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    type: z.string().meta({ examples: ['transfer.created'] }),
    revision: z.int().describe('Number of the event in the history of the transfer, from 0.'),
    position,
    occurred_at: timestamp,
    actor: z
      .string()
      .describe('Who caused the event.')
      .meta({ examples: ['key:key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'HistoryItem' });
export type HistoryItem = z.output<typeof historyItem>;

export const history = z
  .strictObject({ data: z.array(historyItem).describe('Oldest first.') })
  .meta({ id: 'TransferHistory' });
export type History = z.output<typeof history>;

/** Query of GET /v1/events. */
export const exportQuery = z.strictObject({
  from: z
    .string()
    .regex(/^\d{1,19}$/, 'must be a position: a decimal number')
    .transform(BigInt)
    .refine((position) => position < 2n ** 63n, 'must be a position of the log')
    .optional()
    .describe('Only events after this position. To continue an export, give its last position.'),
});

export const auditEvent = z
  .strictObject({
    position,
    stream: z.string().meta({ examples: ['transfer-txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    revision: z.int(),
    id: z.string().meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    type: z.string().meta({ examples: ['transfer.created'] }),
    schema_version: z.int(),
    data: z.record(z.string(), z.unknown()),
    metadata: z
      .record(z.string(), z.unknown())
      .describe(
        '`prev_hash` chains the events of a stream: SHA-256 of the previous event in RFC 8785 ' +
          'form.',
      ),
  })
  .meta({ id: 'AuditEvent' });
export type AuditEvent = z.output<typeof auditEvent>;

/** Returns an event as the history of a transfer shows it. */
export function toHistoryItem({
  id,
  type,
  revision,
  position,
  metadata,
  data,
}: StoredEvent): HistoryItem {
  const { occurred_at, actor } = metadata;
  return {
    id,
    type,
    revision,
    position: String(position),
    occurred_at,
    actor,
    data: data as HistoryItem['data'],
  };
}

/** Returns an event as the export of the log shows it. */
export function toAuditEvent(event: StoredEvent): AuditEvent {
  const { position, stream, revision, id, type, schema_version, data, metadata } = event;
  return {
    position: String(position),
    stream,
    revision,
    id,
    type,
    schema_version,
    data: data as AuditEvent['data'],
    metadata: { ...metadata },
  };
}
