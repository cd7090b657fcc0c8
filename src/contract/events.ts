import { z } from 'zod';
import type { StoredEvent } from '../domain/events/event.ts';
import { isStreamName } from '../domain/events/streams.ts';
import { text } from '../domain/text.ts';
import { timestamp } from './instants.ts';

export const position = z
  .string()
  .describe('Position in the whole log, as a decimal string.')
  .meta({ examples: ['4711'] });

/** A stored event with all that its hash covers. */
const storedEvent = {
  position,
  stream: z.string().meta({ examples: ['transfer-txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  revision: z.int().describe('Number of the event in its stream, from 0.'),
  id: z
    .string()
    .describe('Event ids of one stream strictly increase: order by them.')
    .meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  type: z.string().meta({ examples: ['transfer.created'] }),
  schema_version: z.int().describe('Version of the shape of `data`.'),
  data: z.record(z.string(), z.unknown()).describe('As stored.'),
  metadata: z
    .record(z.string(), z.unknown())
    .describe(
      '`prev_hash` chains the events of a stream: SHA-256 of the previous event in RFC 8785 form.',
    ),
};

export const auditEvent = z.strictObject(storedEvent).meta({ id: 'AuditEvent' });
export type AuditEvent = z.output<typeof auditEvent>;

const historyItem = z
  .strictObject({
    ...storedEvent,
    occurred_at: timestamp,
    actor: z
      .string()
      .describe('Who caused the event.')
      .meta({ examples: ['key:key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
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
  stream: text
    .refine(
      isStreamName,
      'must be the name of a stream: that of a transfer is transfer- and its id',
    )
    .optional()
    .describe('Only the events of this stream, such as `transfer-txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H`.'),
});

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

/** Returns an event as the history of a transfer shows it. */
export function toHistoryItem(event: StoredEvent): HistoryItem {
  const { occurred_at, actor } = event.metadata;
  return { ...toAuditEvent(event), occurred_at, actor };
}
